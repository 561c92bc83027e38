# SPDX-License-Identifier: BSD-3-Clause
# Asking for the extents of all slots without reading any frame works with a
# buffer that holds but a few of them; then all can be read, twice, and over
# several connections.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

random_disk "$d/disk" $((100 << 20))
# Frames of 64 KiB to 256 KiB that do not shrink: 100 and more.
serve walk file "$d/disk" delta-batch=256K delta-buffer=4M \
  "delta-stats=$d/stats"
uri=$(uri_of walk)

nbdinfo --map "$uri" >"$d/map1"
frames=$(stat_of "$d/stats" frames)
((frames > 100))
# Data and hole for each frame and the record.
[[ $(wc -l <"$d/map1") = $((2 * (frames + 1))) ]]
nbdinfo --map "$uri" | cmp - "$d/map1"
"$builddir/tests/test-delta-send-client" status "$uri"

for connections in 1 4; do
  rm -f "$d/wire" "$d/out"
  nbdcopy --connections=$connections "$uri" "$d/wire"
  apply "$d/wire" "$d/out"
  cmp "$d/disk" "$d/out"
done
