#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Somebody fills the spool's file system while the job runs: the spool is
# given up, so that there is room for the guest again, and everything is as
# before; with space reserved and on a file system that cannot reserve.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
tool=$builddir/tests/qmp-tool
cd "$d"

mkdir mnt1 mnt2
requires mount -t tmpfs -o size=200M none mnt1
qemu-img create -q -f qcow2 a.qcow2 256M
start_qsd q \
  --object throttle-group,id=g,x-bps-total=40000000 \
  --blockdev driver=throttle,node-name=af,throttle-group=g,file.driver=file,file.filename=a.qcow2 \
  --blockdev driver=qcow2,node-name=a,file=af \
  --nbd-server addr.type=unix,addr.path=nbd \
  --export type=nbd,id=a,node-name=a,name=a,writable=on
"$tool" bitmap-add q.qmp a m0 4096
qemu-io -f raw -c "write -P 7 0 100M" "nbd+unix:///a?socket=$d/nbd"
start_spool() {
  "$tool" spool q.qmp 0 60000 4096 a m0 m1 "$1/sp" 0123abcd >out 2>err &
  spool=$!
  wait_for 10 sh -c "[ \$(stat -c %s $1/sp) -gt 5000000 ]"
}
fill() { ! dd if=/dev/zero of="$1/other" bs=1M 2>dd.out; }

start_spool "$d/mnt1"
fill mnt1
! wait "$spool" || die "it holds the last of the space"
[[ ! -e mnt1/sp ]]
grep -q 'no room for the spool' err
grep -q ENOSPC out
rm mnt1/other
start_spool "$d/mnt1"
dd if=/dev/zero of=mnt1/other bs=1M count=70 2>dd.out
wait "$spool" || die "the space was reserved"
qemu-img compare a.qcow2 -U mnt1/sp
rm -f mnt1/*
"$tool" bitmap-remove q.qmp a m1

# ext4 without extents cannot reserve.
truncate -s 200M fs
if mkfs.ext4 -q -F -O ^extent,^64bit,^has_journal fs &&
    mount -o loop fs mnt2; then
  start_spool "$d/mnt2"
  fill mnt2
  ! wait "$spool"
  grep -q 'no room for the spool' err
  grep -q ENOSPC out
  [[ ! -e mnt2/sp ]]
fi
"$tool" list q.qmp | grep -v m1
[[ $(qmp q.qmp query-jobs) = '[]' ]]
! qmp q.qmp query-named-block-nodes | grep nbdsync-
