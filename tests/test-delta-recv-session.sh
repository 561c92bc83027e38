#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Passes of a session, repeats of what was received, and a session that a
# newer one ends.
source "$srcdir/tests/test-delta-recv-functions.sh"
threads=1

chain=11111111-2222-3333-4444-555555555555
truncate -s 8M "$d/disk"
random_at "$d/disk" 0 $((5 << 20))
start_recv dir="$d/replica"

# Three passes; later ones write over what earlier ones wrote.
make() { wire --disk vda --chain $chain --batch 1048576 "$@" "$d/disk" "$d/w"; }
make --session a --not-final
cp "$d/w" "$d/w1"
send "$d/w" vda
random_at "$d/disk" 0 65536
fallocate -p -o $((1 << 20)) -l 65536 "$d/disk"
printf '%s\n' "0 65536 data" "1048576 65536 zero" >"$d/plan"
make --session a --not-final --pass 2 --extents "$d/plan"
send "$d/w" vda
[[ ! -e $d/replica/current ]]
send "$d/w" vda                 # the same again
make --session a --pass 4 --extents "$d/plan"
refused "$d/w" vda 'pass 4 after pass 2'
make --session a --pass 3 --size 4194304 --extents "$d/plan"
refused "$d/w" vda 'pass 3 has another chain, base or size'
frames() { echo $(($(stat -c %s "$1") / 134217728 - 1)); }
make --session a2 --not-final
all=$(frames "$d/w")
send "$d/w" vda
make --session a2 --not-final --pass 2 --extents "$d/plan"
send "$d/w" vda
random_at "$d/disk" 32768 65536
echo "32768 65536 data" >"$d/plan"
make --session a2 --pass 3 --extents "$d/plan"
cp "$d/w" "$d/w5"
send "$d/w" vda
same "$d/disk" "$d/replica/current/vda.qcow2"
[[ $(field "$d/replica/current/manifest.json" disks.vda.frames) = \
  $((all + 2)) ]]

# A whole stream again, after its commit: nothing happens, and it is fine.
send "$d/w" vda
[[ $(readlink "$d/replica/current") = generations/000002 ]]
# Under the same id, something else.
echo "0 65536 data" >"$d/plan"
make --session a2 --base 2 --extents "$d/plan"
refused "$d/w" vda 'another record in the same session'

# Two senders that make different things of one session.
make --session b
cp "$d/w" "$d/w2"
make --session b --batch 2097152
client vda "slot:$d/w2:0" "slot:$d/w2:1"
refused "$d/w" vda 'another record in the same session'

# A newer session ends an older one, whatever that does afterwards.
make --session c
cp "$d/w" "$d/w3"
start client vda "slot:$d/w3:0" "slot:$d/w3:1" "touch:$d/begun" \
  "wait:$d/ended" "!slot:$d/w3:2" '!flush'
old=$started
wait_for 10 test -e "$d/begun"
random_at "$d/disk" 0 $((1 << 20))
make --session d
send "$d/w" vda
touch "$d/ended"
wait $old
client vda "!slot:$d/w3:3" '!flush'
grep -q 'session 000000000000000c was ended by a newer one' "$d/recv.log"
same "$d/disk" "$d/replica/current/vda.qcow2"

# Two sessions on one connection, one after the other.
make --session e
cp "$d/w" "$d/w4"
random_at "$d/disk" 0 $((1 << 20))
make --session f
client vda "wire:$d/w4" flush flush "slot:$d/w:0" '!flush' "wire:$d/w" flush
same "$d/disk" "$d/replica/current/vda.qcow2"
[[ $(ls "$d/replica/generations" | grep -c 0) = 4 ]]
