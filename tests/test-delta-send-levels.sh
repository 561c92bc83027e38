# SPDX-License-Identifier: BSD-3-Clause
# Levels of zstd; data that does not shrink is stored as it is.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

seq 1 2000000 | head -c 8M >"$d/disk" || true
last=999999999
for level in -7 1 19; do
  rm -f "$d/out"
  dump "$d/wire" file "$d/disk" delta-level=$level "delta-stats=$d/stats"
  apply "$d/wire" "$d/out"
  cmp "$d/disk" "$d/out"
  [[ $(stat_of "$d/stats" level) = "$level" ]]
  # A stronger level is stronger.
  packed=$(stat_of "$d/stats" packed_bytes)
  echo "level $level: $packed"
  ((packed <= last))
  last=$packed
done

head -c 8M /dev/urandom >"$d/disk"
rm "$d/out"
dump "$d/wire" file "$d/disk" "delta-stats=$d/stats"
apply "$d/wire" "$d/out"
cmp "$d/disk" "$d/out"
(($(stat_of "$d/stats" packed_bytes) < (8 << 20) + 1024))

for level in -8 20 fast; do
  refuses delta-level file "$d/disk" delta-level=$level
done
