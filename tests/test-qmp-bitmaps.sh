#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Names of bitmaps and their life: added persistent where that is possible,
# merged, counted, removed twice.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
tool=$builddir/tests/qmp-tool
cd "$d"

cat >want <<'END'
nbdsync-0123abcd-17
0123abcd 17 0
0123abcd 0 3
0123abcd 18446744073709551615 0
nbdsync-0123abcd-18446744073709551616: not ours
nbdsync-0123abcd-: not ours
nbdsync-0123abcd-1-p: not ours
nbdsync-0123abcd-1-p0: not ours
nbdsync-0123abcd-1x: not ours
nbdsync-0123ABCD-1: not ours
nbdsync-0123abc-1: not ours
nbdsync-0123abcd-01: not ours
nbdsync-0123abcd--1: not ours
nbdsync-0123abcd-count: not ours
libvirt-1: not ours
: not ours
END
"$tool" names 0123abcd-0000-4000-8000-000000000000 17 0 \
  nbdsync-0123abcd-17 nbdsync-0123abcd-0-p3 \
  nbdsync-0123abcd-18446744073709551615 nbdsync-0123abcd-18446744073709551616 \
  nbdsync-0123abcd- nbdsync-0123abcd-1-p nbdsync-0123abcd-1-p0 \
  nbdsync-0123abcd-1x nbdsync-0123ABCD-1 nbdsync-0123abc-1 nbdsync-0123abcd-01 \
  nbdsync-0123abcd--1 nbdsync-0123abcd-count libvirt-1 '' | diff want -
[[ $("$tool" names 0123abcd-0000-4000-8000-000000000000 17 2) = \
   nbdsync-0123abcd-17-p2 ]]

# 64 MiB of bits cover 2 TiB in units of 4 KiB.
[[ $("$tool" granularity 512) = 4096 ]]
[[ $("$tool" granularity $((2 << 40))) = 4096 ]]
[[ $("$tool" granularity $((8 << 40))) = 16384 ]]

qemu-img create -q -f qcow2 a.qcow2 1G
qemu-img create -q -f qcow2 -o compat=0.10 old.qcow2 1G
start_qsd q \
  --blockdev driver=qcow2,node-name=a,file.driver=file,file.filename=a.qcow2 \
  --blockdev driver=qcow2,node-name=old,file.driver=file,file.filename=old.qcow2 \
  --nbd-server addr.type=unix,addr.path=nbd \
  --export type=nbd,id=e,node-name=a,name=a,writable=on
qsd=$started
write() { qemu-io -f raw -c "$1" "nbd+unix:///a?socket=$d/nbd" >/dev/null; }

"$tool" bitmap-add q.qmp a b1 4096
"$tool" bitmap-add q.qmp a b2 4096
"$tool" bitmap-add q.qmp old b1 4096
"$tool" list q.qmp | grep '^name=old .*bitmap=b1,4096,0,recording ' >/dev/null
fails 1 'q.qmp: block-dirty-bitmap-add: Bitmap already exists: b1' \
  "$tool" bitmap-add q.qmp a b1 4096

# 4 KiB twice in one unit of a spool, and once over a border.
write 'write 1M 4k'
write 'write 1052672 4k'
"$tool" bitmap-remove q.qmp a b2
"$tool" bitmap-add q.qmp a b2 4096
write 'write 2095104 4k'
"$tool" list q.qmp >list
grep -q 'bitmap=b1,4096,16384,' list
grep -q 'bitmap=b2,4096,8192,' list
[[ $("$tool" spool-bytes q.qmp a b1) = $((3 * 65536)) ]]
[[ $("$tool" spool-bytes q.qmp a b2) = $((2 * 65536)) ]]
"$tool" list q.qmp | cmp - list

"$tool" bitmap-add q.qmp a b3 65536
"$tool" bitmap-merge q.qmp a b3 b1
"$tool" list q.qmp | grep 'bitmap=b3,65536,196608,' >/dev/null
for i in 1 2; do
  "$tool" bitmap-remove q.qmp a b3
  "$tool" bitmap-remove q.qmp a b2
done
fails 1 'Dirty bitmap .b9. not found' "$tool" spool-bytes q.qmp a b9

# Persistent ones outlive a clean end, and only those.
kill "$qsd"
wait "$qsd"
[[ $(qemu-img info --output=json a.qcow2 |
  python3 -c 'import json, sys
b = json.load(sys.stdin)["format-specific"]["data"]["bitmaps"]
print([x["name"] for x in b], b[0]["flags"])') = "['b1'] ['auto']" ]]
