# SPDX-License-Identifier: BSD-3-Clause
# Batches of any size, with threads and buffers that fit them or hardly do.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

random_disk "$d/disk" $((40 << 20))
for how in 'delta-batch=64K delta-buffer=2M' 'delta-batch=100000' \
           'delta-batch=1M delta-threads=1 delta-buffer=6M' \
           'delta-batch=4M delta-threads=16' \
           'delta-batch=32M delta-buffer=110M'; do
  rm -f "$d/out" "$d/wire"
  # shellcheck disable=SC2086
  dump "$d/wire" file "$d/disk" $how
  apply "$d/wire" "$d/out"
  cmp "$d/disk" "$d/out"
done

refuses 'delta-batch: must be' file "$d/disk" delta-batch=63K
refuses 'delta-batch: must be' file "$d/disk" delta-batch=33M
refuses 'delta-buffer: batches of .* need at least' file "$d/disk" \
  delta-batch=32M delta-buffer=16M
refuses 'delta-threads: must be' file "$d/disk" delta-threads=0
