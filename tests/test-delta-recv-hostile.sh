#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Streams that are damaged, lie, or are not for this replica: each is refused
# with one line, and the replica stays as it was.
source "$srcdir/tests/test-delta-recv-functions.sh"
threads=1

chain=11111111-2222-3333-4444-555555555555
other=99999999-2222-3333-4444-555555555555
truncate -s 8M "$d/disk"
random_at "$d/disk" 0 $((5 << 20))
start_recv dir="$d/replica" buffer=16M
wire --disk vda --chain $chain "$d/disk" "$d/wire"
send "$d/wire" vda
(cd "$d/replica" && find . -path ./generations/incoming -prune -o -type f \
  ! -name last.json -exec sha256sum {} + | sort) >"$d/before"

# bad TEXT OPTIONS...: such a stream is refused.
bad() {
  local text=$1
  shift
  wire --disk vda --chain $chain --batch 1048576 "$@" "$d/disk" "$d/wire"
  refused "$d/wire" vda "$text"
  [[ $(readlink "$d/replica/current") = generations/000001 ]]
}

echo "0 65536 data" >"$d/plan"
where='vda: frame 3, at 402653184 of the stream'
bad "$where: its checksum is wrong" --flip 3:70000
bad "$where: its checksum is wrong" --flip 3:70000 --level 19
bad "$where: no frame: the magic" --flip 3:2
bad "$where: a frame in the wrong slot" --flip 3:8
bad "$where: the batch is too long" --claim 3:4294967296 --stored
bad "$where: the batch is too long" --claim 3:18446744073709551615
bad "$where: an extent is beyond the end" --beyond 3
bad 'vda: frame [0-9], .*: of another session' --alien 3
bad "$where: its checksum is wrong" --cut 3
bad 'vda: 2 of 8 frames are missing' --frames 8
bad 'vda: frame [456], .*: beyond the last one' --frames 3
bad 'frame 0, .*: the session record is not JSON' --record 'x'
bad 'frame 0, .*: the session record is not JSON' \
  --record '{"format":1,"format":1}'
bad 'frame 0, .*: not a session record' --record '[]'
bad 'frame 0, .*: of another format version' --record '{"format":2}'
bad 'frame 0, .*: no chain' --record '{"format":1}'
bad 'frame 0, .*: its checksum' --flip 0:100
bad 'vda: the replica follows another source' --chain $other
bad 'builds on generation 7, but the replica is at 1' --base 7
bad 'has 9437184 bytes, the replica 8388608' --base 1 --size 9437184 \
  --extents "$d/plan"
bad 'vda: pass 2 of a session that is not open' --pass 2
bad 'generation 9 was not promised' --target 9
bad 'vda: this export was sent the stream of disk vdb' --disk vdb \
  --disks vda,vdb

# A base that the replica does not have, for a disk that it does not know.
wire --disk new --base 1 "$d/disk" "$d/wire"
refused "$d/wire" new 'has no such disk; a full sync must come first'

# Junk that is no frame at all.
: >"$d/recv.log"
client vda '!data:0:4096' '!flush'
client vda 'data:134217828:4096' '!flush'
client vda 'zero:0:4294966784' 'zero:512:4294966784' '!flush'
grep -q 'NBDSYNC1' "$d/recv.log"

(cd "$d/replica" && find . -path ./generations/incoming -prune -o -type f \
  ! -name last.json -exec sha256sum {} + | sort) | cmp - "$d/before"

# And the next good stream goes through.
wire --disk vda --chain $chain --base 1 --extents "$d/plan" "$d/disk" \
  "$d/wire"
send "$d/wire" vda
same "$d/disk" "$d/replica/current/vda.qcow2"
