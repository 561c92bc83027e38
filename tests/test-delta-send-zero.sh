# SPDX-License-Identifier: BSD-3-Clause
# Zeroes cost nothing: what the source calls zero is not read, and runs of
# 4 KiB inside of data are dropped; both overwrite what the target has.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

truncate -s 16M "$d/disk"
# data, a zero block, data; less than a block of zeroes; a partial block
for at in 0 8192 $((1 << 20)) $((1048576 + 8704)) $((2097152 + 512)); do
  head -c 3584 /dev/urandom |
    dd of="$d/disk" bs=512 seek=$((at / 512)) conv=notrunc status=none
done

dump "$d/wire" "--filter=noextents" file "$d/disk" "delta-stats=$d/stats"
diff <(extents "$d/wire") - <<'END'
0 4096 data
4096 4096 zero
8192 4096 data
12288 1036288 zero
1048576 4096 data
1052672 4096 zero
1056768 4096 data
1060864 1036288 zero
2097152 4096 data
2101248 2093056 zero
4194304 4194304 zero
8388608 4194304 zero
12582912 4194304 zero
END
head -c 16M /dev/urandom >"$d/out"
apply "$d/wire" "$d/out"
cmp "$d/disk" "$d/out"
[[ $(stat_of "$d/stats" read_bytes) = 16777216 ]]
[[ $(stat_of "$d/stats" data_bytes) = 20480 ]]

# With the extents of the source the holes are not even read.
dump "$d/wire" file "$d/disk" "delta-stats=$d/stats"
head -c 16M /dev/urandom >"$d/out"
apply "$d/wire" "$d/out"
cmp "$d/disk" "$d/out"
(($(stat_of "$d/stats" read_bytes) < 100000))
(($(stat_of "$d/stats" zero_bytes) == 16777216 - 20480))
