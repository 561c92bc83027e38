#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The spool of two disks: content and plan are those of the instant, to
# 4 KiB, with discarded and zeroed ranges, and what is written afterwards is
# in the new bitmap.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
tool=$builddir/tests/qmp-tool
cd "$d"

for n in a b; do qemu-img create -q -f qcow2 $n.qcow2 64M; done
start_qsd q \
  --blockdev driver=qcow2,node-name=a,discard=unmap,file.driver=file,file.filename=a.qcow2 \
  --blockdev driver=qcow2,node-name=b,discard=unmap,file.driver=file,file.filename=b.qcow2 \
  --nbd-server addr.type=unix,addr.path=nbd \
  --export type=nbd,id=a,node-name=a,name=a,writable=on \
  --export type=nbd,id=b,node-name=b,name=b,writable=on
io() {
  local n=$1
  shift
  local args=() c
  for c in "$@"; do args+=(-c "$c"); done
  qemu-io -d unmap -f raw "${args[@]}" "nbd+unix:///$n?socket=$d/nbd" >io.out
}

io a 'write -P 1 0 16M'
io b 'write -P 2 0 16M'
"$tool" bitmap-add q.qmp a m0 4096
"$tool" bitmap-add q.qmp b m0 4096
io a 'discard 1M 64k' 'write -z 2M 64k' 'write -z 3M 4k' 'write -P 3 4M 4k' \
  'discard 5M 4k' 'write -P 4 40M 128k'
io b 'write -P 5 8M 4k'
qemu-img convert -f raw -O raw "nbd+unix:///a?socket=$d/nbd" a.want
qemu-img convert -f raw -O raw "nbd+unix:///b?socket=$d/nbd" b.want

"$tool" spool q.qmp 0 20000 4096 a m0 m1 "$d/spa" 0123abcd \
  b m0 m1 "$d/spb" 4567abcd
io a 'write -P 9 4M 4k' 'write -P 9 7M 4k'

# Nothing is left in QEMU but the bitmaps.
"$tool" list q.qmp >list
grep 'name=a .*bitmap=m1,4096,8192,recording,persistent' list
grep 'name=b .*bitmap=m1,4096,0,recording,persistent' list
[[ $(grep -c 'bitmap=m0,.*recording,persistent' list) = 2 ]]
! qmp q.qmp query-named-block-nodes | grep nbdsync-
[[ $(qmp q.qmp query-jobs) = '[]' ]]
qemu-img check -q spa

# plan FILE: "OFFSET LENGTH zero|data" of what is dirty and local.
plan() {
  mkfifo stdin.$1
  "$tool" reader "$d/$1" qcow2 plain chg "$d/$1.sock" <stdin.$1 >$1.ready &
  exec 9>stdin.$1
  wait_for 10 grep -q ready $1.ready
  local uri="nbd+unix:///disk?socket=$d/$1.sock" c
  nbdinfo --json --map=qemu:dirty-bitmap:chg "$uri" >map.dirty
  nbdinfo --json --map=qemu:allocation-depth "$uri" >map.depth
  nbdinfo --json --map=base:allocation "$uri" >map.base
  qemu-img convert -f raw -O raw "$uri" $1.raw
  exec 9>&-
  wait $!
  python3 - <<'END'
import json
def load(n):
    return json.load(open('map.' + n))
edges = sorted({x['offset'] for n in ('dirty', 'depth', 'base')
                for x in load(n)} | {64 << 20})
def at(m, o):
    return next(x['type'] for x in m
                if x['offset'] <= o < x['offset'] + x['length'])
dirty, depth, base = load('dirty'), load('depth'), load('base')
out = []
for o, e in zip(edges, edges[1:]):
    if at(dirty, o) & 1 and at(depth, o) == 1:
        kind = 'zero' if at(base, o) & 2 else 'data'
        if out and out[-1][1] == o and out[-1][2] == kind:
            out[-1][1] = e
        else:
            out.append([o, e, kind])
for o, e, kind in out:
    print(o, e - o, kind)
END
}
K=1024 M=1048576
plan spa | tee plan.a
cmp plan.a <<END
$((1*M)) $((64*K)) zero
$((2*M)) $((64*K)) zero
$((3*M)) $((4*K)) data
$((4*M)) $((4*K)) data
$((5*M)) $((4*K)) data
$((40*M)) $((128*K)) data
END
plan spb >plan.b
echo "$((8*M)) $((4*K)) data" | cmp - plan.b

# Where it plans something, its content is that of the instant.
same() {
  while read -r offset length _; do
    cmp -n "$length" -i "$offset" "$1" "$2" || die "$1 at $offset"
  done <"$3"
}
same spa.raw a.want plan.a
same spb.raw b.want plan.b

# A full: all that is not zero, without an old bitmap.
"$tool" spool q.qmp 0 20000 4096 b - m2 "$d/full" 4567abcd
[[ $(wc -c <full) -lt $((20*M)) ]] || die "holes were copied"
qemu-img compare full "nbd+unix:///b?socket=$d/nbd"
fails 1 "$d/full: File exists" \
  "$tool" spool q.qmp 0 20000 4096 b - m3 "$d/full" 4567abcd
