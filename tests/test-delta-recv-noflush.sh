#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Only a flush commits, and only if every frame came.
source "$srcdir/tests/test-delta-recv-functions.sh"

truncate -s 10M "$d/disk"
random_at "$d/disk" 0 $((5 << 20))
wire --disk vda --batch 1048576 "$d/disk" "$d/wire"
start_recv dir="$d/replica"

# All frames, no flush.
nbdcopy "$d/wire" "$(uri vda)"
wait_for 5 grep -q 'no flush, so nothing was committed' "$d/recv.log"
[[ ! -e $d/replica/current ]]

# A flush on a new connection speaks for them.
client vda flush
same "$d/disk" "$d/replica/current/vda.qcow2"
client vda flush

# A part, flushed: the frames are missing; then the rest.
random_at "$d/disk" 0 $((5 << 20))
chain=$(field "$d/replica/current/manifest.json" disks.vda.chain)
wire --disk vda --chain "$chain" --batch 1048576 "$d/disk" "$d/wire"
: >"$d/recv.log"
w=$d/wire
client vda "slot:$w:0" "slot:$w:1" "slot:$w:2" "slot:$w:3" '!flush' \
  "slot:$w:4" "slot:$w:5" "slot:$w:6" flush
grep -q 'vda: 3 of 6 frames are missing' "$d/recv.log"
same "$d/disk" "$d/replica/current/vda.qcow2"
[[ $(readlink "$d/replica/current") = generations/000002 ]]

# Nothing at all: no success.
: >"$d/recv.log"
client vdb '!flush'
grep -q 'vdb: a flush, but nothing was received' "$d/recv.log"
client vda '!read:0:512'
grep -q 'cannot be read' "$d/recv.log"
nbdinfo "$(uri ../x)" && die "a name that is no name"
exit 0
