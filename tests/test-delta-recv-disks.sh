#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two disks in one session become current together; a disk can join and leave.
source "$srcdir/tests/test-delta-recv-functions.sh"

truncate -s 8M "$d/a" "$d/b" "$d/c"
random_at "$d/a" 0 $((3 << 20))
random_at "$d/b" 0 $((3 << 20))
random_at "$d/c" 0 $((3 << 20))
chain() { echo "1111111$1-2222-3333-4444-555555555555"; }
start_recv dir="$d/replica"

# make SESSION DISKS DISK N ARGS...
make() {
  local session=$1 disks=$2 disk=$3 n=$4
  shift 4
  wire --session "$session" --disks "$disks" --disk "$disk" \
    --chain "$(chain "$n")" "$@" "$d/$disk" "$d/wire.$disk"
}

make 000000000000000a a,b a 1
make 000000000000000a a,b b 2
send "$d/wire.a" a
[[ ! -e $d/replica/current ]] || die "one of two disks was committed"
client a flush
[[ ! -e $d/replica/current ]] || die "one of two disks was committed twice"
make 000000000000000a a,b a 1 --pass 2 --extents /dev/null
client a "!slot:$d/wire.a:0"
grep -q 'another record in the same session' "$d/recv.log"
send "$d/wire.b" b
same "$d/a" "$d/replica/current/a.qcow2"
same "$d/b" "$d/replica/current/b.qcow2"

# At once; b did not change; c is new.
random_at "$d/a" 65536 65536
echo "65536 65536 data" >"$d/plan"
: >"$d/empty"
make 000000000000000b a,b,c a 1 --base 1 --extents "$d/plan"
make 000000000000000b a,b,c b 2 --base 1 --extents "$d/empty"
make 000000000000000b a,b,c c 3
send "$d/wire.a" a & p=$!
send "$d/wire.c" c & q=$!
wait $p
wait $q
[[ $(readlink "$d/replica/current") = generations/000001 ]]
send "$d/wire.b" b
[[ $(readlink "$d/replica/current") = generations/000002 ]]
for x in a b c; do same "$d/$x" "$d/replica/current/$x.qcow2"; done
[[ $(field "$d/replica/current/manifest.json" disks.c.base) = 0 ]]

# b is gone.
make 000000000000000c a,c a 1 --base 2 --extents "$d/empty"
make 000000000000000c a,c c 3 --base 2 --extents "$d/empty"
send "$d/wire.a" a
send "$d/wire.c" c
[[ $(readlink "$d/replica/current") = generations/000003 ]]
[[ ! -e $d/replica/current/b.qcow2 ]]
grep -q '"b"' "$d/replica/current/manifest.json" && die "b is still there"

# Records of one session that name different disks.
threads=1
make 000000000000000d a,c a 1 --base 3 --extents "$d/empty"
make 000000000000000d c c 3 --base 3 --extents "$d/empty"
send "$d/wire.a" a
refused "$d/wire.c" c 'name different disks'
