# SPDX-License-Identifier: BSD-3-Clause
# delta-extents: the plan from a file; what is wrong with one is said.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

random_disk "$d/disk" $((32 << 20))
truncate -s 64M "$d/disk"
increment "$d/session"
send=(file "$d/disk" "delta-session=$d/session" "delta-extents=$d/list")

# Not in order, with units and types; touching ones become one.
cat >"$d/list" <<'END'
4M 64K
0 4096 0
4096 512 hole
40M	1M	hole,zero
63M 1M
0 0
END
dump "$d/wire" "${send[@]}" --filter=noextents
extents "$d/wire" | awk '{ n += $2 } END { print n }' | grep -qx 2167296
cp "$d/disk" "$d/out"
# What is listed is spoiled in the copy, and mended; nothing else is touched.
for range in "0 4608" "$((4 << 20)) 65536" "$((63 << 20)) $((1 << 20))"; do
  read -r offset length <<<"$range"
  head -c "$length" /dev/urandom |
    dd of="$d/out" bs=512 seek=$((offset / 512)) conv=notrunc status=none
done
printf spoiled | dd of="$d/out" bs=512 seek=$((20 << 11)) conv=notrunc \
  status=none
apply "$d/wire" "$d/out"
[[ $(cmp -l "$d/disk" "$d/out" | wc -l) -le 7 ]]
cmp -n $((20 << 20)) "$d/disk" "$d/out"
cmp -i $(((20 << 20) + 512)) "$d/disk" "$d/out"

refuse() {
  printf '%b' "$2" >"$d/list"
  refuses "$1" "${send[@]}"
}
refuse 'overlap at 4096' '0 8192\n4096 4096\n'
refuse 'beyond the end of the disk' '63M 2M\n'
refuse 'list:2: not "offset length' '0 4096\n4096\n'
refuse 'list:1: not "offset length' '0 4096 data\n'
refuse 'list:1: offset or length' '0 -4096\n'
refuse 'list:1: offset or length' '9223372036854775807 4096\n'
refuse 'longer than a disk' '0 2E\n'
rm "$d/list"
refuses 'list: No such file' "${send[@]}"
echo '0 4096' >"$d/list"
refuses 'not together' "${send[@]}" delta-local=yes
