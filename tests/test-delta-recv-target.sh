#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One image in place: made as qcow2 or raw, or there before with other
# content; then an increment.
source "$srcdir/tests/test-delta-recv-functions.sh"
threads=1

chain=11111111-2222-3333-4444-555555555555
truncate -s 20M "$d/disk"
random_at "$d/disk" $((1 << 20)) $((5 << 20))
cp "$d/disk" "$d/disk.2"
random_at "$d/disk.2" 3000000 70000
echo "2999808 70656 data" >"$d/plan"
wire --chain $chain "$d/disk" "$d/full"
wire --chain $chain --base 1 --extents "$d/plan" "$d/disk.2" "$d/inc"

garbage() { head -c 20M /dev/urandom; }

# both TARGET ARGS...: a full and an increment.
both() {
  local target=$1
  shift
  start_recv target="$target" "$@"
  send "$d/full"
  [[ $(field "$target.nbdsync.json" state) = complete ]]
  same "$d/disk" "$target"
  send "$d/inc"
  [[ $(field "$target.nbdsync.json" generation) = 2 ]]
  same "$d/disk.2" "$target"
  stop_recv
}

both "$d/new.qcow2"
[[ $(stat -c %a "$d/new.qcow2") = 600 ]]
both "$d/new.raw" format=raw
cmp "$d/disk.2" "$d/new.raw"

garbage >"$d/old.raw"
both "$d/old.raw"
cmp "$d/disk.2" "$d/old.raw"

garbage >"$d/garbage"
qemu-img convert -O qcow2 "$d/garbage" "$d/old.qcow2"
both "$d/old.qcow2"

# An overlay of somebody's own.
qemu-img create -q -f qcow2 -F raw -b "$d/garbage" "$d/overlay.qcow2"
both "$d/overlay.qcow2"

# The marker says "incomplete" while a stream comes, and an increment is
# refused then; so is one that does not fit.
start_recv target="$d/new.qcow2"
cp "$d/full" "$d/unflushed"
nbdcopy "$d/unflushed" "$(uri)"
# Said when its last connection has gone.
wait_for 10 grep -q 'no flush, so nothing was committed' "$d/recv.log"
[[ $(field "$d/new.qcow2.nbdsync.json" state) = incomplete ]]
refused "$d/inc" "" 'only a part of a session was written'
wire --chain $chain "$d/disk" "$d/full"
send "$d/full"
refused "$d/inc" "" 'builds on generation 1, but it holds 4'
wire "$d/disk" "$d/other"
refused "$d/other" "" "follows another source, chain $chain"
truncate -s 21M "$d/larger"
wire --chain $chain "$d/larger" "$d/other"
refused "$d/other" "" 'has 20971520 bytes, the source 22020096'
stop_recv
same "$d/disk" "$d/new.qcow2"

# An image that is open elsewhere.
start qemu-nbd -k "$d/qemu-nbd.sock" -t "$d/new.qcow2"
wait_for 10 test -S "$d/qemu-nbd.sock"
start_recv target="$d/new.qcow2"
wire --chain $chain "$d/disk" "$d/full"
refused "$d/full" "" 'lock'
stop_recv

# A block device.
if loop=$(losetup --show -f "$d/old.raw" 2>/dev/null); then
  cleanup_fn losetup -d "$loop"
  cleanup_fn rm -f "$loop.nbdsync.json" "$loop.nbdsync.lock"
  garbage >"$loop"
  both "$loop"
  cmp "$d/disk.2" "$loop"
fi
