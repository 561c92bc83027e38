# SPDX-License-Identifier: BSD-3-Clause
# Reads of the disk that fail at random: each copy either fails, or is
# right.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

random_disk "$d/disk" $((20 << 20))
failed=0
for rate in 2 2 2 30 30; do
  rm -f "$d/wire" "$d/out"
  if dump "$d/wire" --filter=error file "$d/disk" delta-batch=512K \
       error-pread=EIO error-pread-rate=$rate% 2>"$d/stderr"; then
    ! grep 'reading the disk' "$d/stderr"
    apply "$d/wire" "$d/out"
    cmp "$d/disk" "$d/out"
  else
    grep -q 'reading the disk at' "$d/stderr"
    failed=$((failed + 1))
  fi
done
echo "$failed of 5 failed"
((failed > 0))
