#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A spool that fails leaves nodes, jobs, bitmaps and files as they were:
# over its limit, no room, in a transaction that is refused, in a job whose
# target fails, out of time, and when QEMU dies it does not hang.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
tool=$builddir/tests/qmp-tool
cd "$d"

for n in a b; do qemu-img create -q -f qcow2 $n.qcow2 256M; done
start_ab() {
  rm -f q.qmp
  start_qsd q \
    --object throttle-group,id=g,x-bps-total=50000000 \
    --blockdev driver=throttle,node-name=af,throttle-group=g,file.driver=file,file.filename=a.qcow2 \
    --blockdev driver=qcow2,node-name=a,file=af \
    --blockdev driver=qcow2,node-name=b,file.driver=file,file.filename=b.qcow2 \
    --nbd-server addr.type=unix,addr.path=nbd \
    --export type=nbd,id=a,node-name=a,name=a,writable=on \
    --export type=nbd,id=b,node-name=b,name=b,writable=on
  qsd=$started
}
start_ab
for n in a b; do
  "$tool" bitmap-add q.qmp $n m0 4096
  qemu-io -f raw -c "write -P 7 0 100M" "nbd+unix:///$n?socket=$d/nbd"
done

state() {
  "$tool" list q.qmp
  qmp q.qmp query-named-block-nodes '{"flat":true}' |
    grep -o '"node-name": "[^"]*"' | sort
  qmp q.qmp query-jobs
  qmp q.qmp query-block-exports
  ls "$d"/sp/* "$d"/mnt*/* 2>/dev/null || :
}
mkdir sp
state >before
unchanged() { state | diff before - || die "not as before"; }
spool() {             # LIMIT MS PATH-A PATH-B [NEW-B]
  "$tool" spool q.qmp "$1" "$2" 4096 \
    a m0 m1 "$3" 0123abcd b m0 "${5:-m1}" "$4" 4567abcd
}

fails 1 'more than its limit' spool 104857600 20000 "$d/sp/a" "$d/sp/b" >out
grep -q EFBIG out
unchanged

fails 1 'was not ready in time' spool 0 20 "$d/sp/a" "$d/sp/b" >out
grep -q ETIMEDOUT out
unchanged

fails 1 "$d/none/b" spool 0 20000 "$d/sp/a" "$d/none/b"
unchanged

# A file system that is too small; while it runs, see test-qmp-spool-full.
if mkdir mnt && mount -t tmpfs -o size=20M none mnt 2>/dev/null; then
  fails 1 'no room for the spool of a' spool 0 20000 "$d/mnt/a" "$d/sp/b" >out
  grep -q ENOSPC out
  unchanged
fi

# QEMU is killed while the job runs.
"$tool" spool q.qmp 0 20000 4096 a m0 m1 "$d/sp/a" 0123abcd \
  >out 2>err &
spool=$!
wait_for 10 sh -c "[ \$(stat -c %s $d/sp/a) -gt 2000000 ]"
kill -9 "$qsd"
! wait "$spool" || die "a spool of a dead QEMU"
grep -q 'closed the monitor' err
[[ ! -e sp/a ]]

# The last action of the transaction fails: that bitmap exists.
start_ab
for n in a b; do
  "$tool" bitmap-remove q.qmp $n m0
  "$tool" bitmap-add q.qmp $n m0 4096
done
state >before
fails 1 'transaction: Bitmap already exists: m0' \
  spool 0 20000 "$d/sp/a" "$d/sp/b" m0
unchanged
