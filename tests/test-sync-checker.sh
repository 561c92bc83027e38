#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The judge of the tests under writes (workload.c) is right itself: a copy
# that QEMU's own backup jobs made of two disks at one instant, under
# writes, passes; the two disks at different instants, one sector of the
# past, and one lost sector do not.
. "$(dirname "$0")/functions.sh"

for i in a b; do
  qemu-img create -q -f qcow2 -o cluster_size=16k "$d/$i.qcow2" 64M
  for n in 1 2 3; do
    qemu-img create -q -f qcow2 "$d/$i.$n.qcow2" 64M
  done
done
start_qsd src --nbd-server addr.type=unix,addr.path="$d/nbd" \
  --blockdev qcow2,node-name=a,discard=unmap,file.driver=file,file.filename="$d/a.qcow2" \
  --blockdev qcow2,node-name=b,discard=unmap,file.driver=file,file.filename="$d/b.qcow2" \
  --export nbd,id=ea,node-name=a,name=a,writable=on \
  --export nbd,id=eb,node-name=b,name=b,writable=on
start "$builddir/tests/workload" write "$d/log" \
  "nbd+unix:///a?socket=$d/nbd" "nbd+unix:///b?socket=$d/nbd" 400 1
writer=$started

at_op() { (($(tail -n 1 "$d/log" | cut -d' ' -f1) >= $1)); }
jobs_done() {
  [[ $(qmp "$d/src.qmp" query-jobs) != *'"running"'* ]]
}

# One more generation: backup jobs of both disks that start at one instant.
backup() {
  local i actions=
  for i in a b; do
    qmp "$d/src.qmp" blockdev-add "{\"driver\": \"qcow2\",
      \"node-name\": \"$i.$1\", \"file\": {\"driver\": \"file\",
      \"filename\": \"$d/$i.$1.qcow2\"}}"
    actions+=", {\"type\": \"blockdev-backup\", \"data\": {\"job-id\": \"$i\",
      \"device\": \"$i\", \"target\": \"$i.$1\", \"sync\": \"full\"}}"
  done
  qmp "$d/src.qmp" transaction "{\"actions\": [${actions#, }]}"
  wait_for 60 jobs_done
  for i in a b; do
    qmp "$d/src.qmp" blockdev-del "{\"node-name\": \"$i.$1\"}"
  done
}

for n in 1 2 3; do
  wait_for 60 at_op $((n * 150))
  backup "$n"
done
kill "$writer"
wait "$writer" || die "the writer failed"

check() { "$builddir/tests/workload" check "$d/log" "$@"; }
cd "$d"
check {a,b}.1.qcow2 {a,b}.2.qcow2 {a,b}.3.qcow2 | tee instants
[[ $(awk '{ print $3 }' instants | sort -nu | wc -l) = 3 ]] ||
  die "three generations are not three instants"

check a.1.qcow2 b.2.qcow2 && die "B is of another instant than A"
check a.2.qcow2 b.1.qcow2 && die "B is of another instant than A"

# One sector that holds something: lost, and come to the wrong place.
qemu-img convert -O raw b.2.qcow2 good.raw
byte=$(LC_ALL=C grep -obUaPm1 '[^\0]' good.raw | sed -n '1s/:.*//p')
sector=$((byte / 512))
check a.2.qcow2 good.raw
cp good.raw lost.raw
dd if=/dev/zero of=lost.raw bs=512 seek="$sector" count=1 conv=notrunc
check a.2.qcow2 lost.raw && die "a lost sector"
cp good.raw moved.raw
dd if=good.raw of=moved.raw bs=512 skip="$sector" seek=$((sector + 64)) \
  count=1 conv=notrunc
check a.2.qcow2 moved.raw && die "a sector at the wrong place"
exit 0
