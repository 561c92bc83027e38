#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The target's file system is full: the session fails and says so, the replica
# is unharmed, and with space again the next session succeeds.
source "$srcdir/tests/test-delta-recv-functions.sh"
threads=1

mkdir "$d/mnt"
requires mount -t tmpfs -o size=12M none "$d/mnt"
chain=11111111-2222-3333-4444-555555555555
truncate -s 32M "$d/disk"
random_at "$d/disk" 0 $((4 << 20))
start_recv dir="$d/mnt/replica" buffer=64M
wire --disk vda --chain $chain --batch 1048576 "$d/disk" "$d/wire"
send "$d/wire" vda
cp "$d/disk" "$d/disk.1"

random_at "$d/disk" 0 $((16 << 20))
wire --disk vda --chain $chain --batch 1048576 "$d/disk" "$d/wire"
refused "$d/wire" vda 'vda: write at [0-9]+: No space left on device'
[[ $(readlink "$d/mnt/replica/current") = generations/000001 ]]
same "$d/disk.1" "$d/mnt/replica/current/vda.qcow2"
qemu-img check -q "$d/mnt/replica/current/vda.qcow2"

# Full of pieces that cannot be placed yet.
stop_recv
start_recv dir="$d/mnt/replica" buffer=4M
wire --disk vda --chain $chain --batch 1048576 "$d/disk" "$d/wire"
: >"$d/recv.log"
commands=()
for ((i = 1; i < 16; i++)); do commands+=("slot:$d/wire:$i"); done
client vda "${commands[@]}" && die "more pieces than there is space"
grep -q 'vda: frame .*: the temporary file .*No space left' "$d/recv.log"

# The space comes back, and so does success.
mount -o remount,size=64M "$d/mnt"
wire --disk vda --chain $chain --batch 1048576 "$d/disk" "$d/wire"
send "$d/wire" vda
same "$d/disk" "$d/mnt/replica/current/vda.qcow2"
stop_recv

# One image in place: its marker says that it is not whole.
mount -o remount,size=64M "$d/mnt"
rm -rf "$d/mnt/replica"
mount -o remount,size=12M "$d/mnt"
start_recv target="$d/mnt/t.raw" format=raw
wire --chain $chain "$d/disk" "$d/wire"
refused "$d/wire" "" 't.raw: write at [0-9]+: No space left on device'
[[ $(field "$d/mnt/t.raw.nbdsync.json" state) = incomplete ]]
mount -o remount,size=64M "$d/mnt"
wire --chain $chain "$d/disk" "$d/wire"
send "$d/wire"
same "$d/disk" "$d/mnt/t.raw"
