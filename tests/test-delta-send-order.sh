# SPDX-License-Identifier: BSD-3-Clause
# Reads in random order, repeated, of any length, by several clients at
# once, give the bytes that a copy in order gave, with little room.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

random_disk "$d/disk" $((60 << 20))
serve order file "$d/disk" delta-batch=1M delta-buffer=10M
uri=$(uri_of order)
nbdcopy "$uri" "$d/wire"
apply "$d/wire" "$d/out"
cmp "$d/disk" "$d/out"

pids=()
for seed in 1 2 3 4; do
  "$builddir/tests/test-delta-send-client" random "$uri" "$d/wire" $seed &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done

rm "$d/wire" "$d/out"
nbdcopy "$uri" "$d/wire"
apply "$d/wire" "$d/out"
cmp "$d/disk" "$d/out"
