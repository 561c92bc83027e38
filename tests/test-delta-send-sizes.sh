# SPDX-License-Identifier: BSD-3-Clause
# Odd sizes of the disk come out exactly; what is no multiple of a sector is
# refused.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

for size in 512 4096 $((1048576 + 512)) $((4194304 + 1536)); do
  head -c "$size" /dev/urandom >"$d/disk"
  rm -f "$d/out"
  dump "$d/wire" file "$d/disk"
  apply "$d/wire" "$d/out"
  cmp "$d/disk" "$d/out"
done

# All zero, with and without extents of the source: frames, but no data.
truncate -s $((1048576 + 512)) "$d/zero"
for filter in --filter=noextents --filter=cow; do
  rm -f "$d/out"
  dump "$d/wire" $filter file "$d/zero"
  apply "$d/wire" "$d/out"
  cmp "$d/zero" "$d/out"
  [[ $(extents "$d/wire") = '0 1049088 zero' ]]
done

truncate -s $((1048576 + 1)) "$d/odd"
refuses 'multiple of 512' file "$d/odd"
refuses 'multiple of 512' memory 0
