#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What must not become, or replace, a replica by a typing error: a directory
# with other things in it, a place inside a replica, another machine's
# replica; and a replica that is broken is not called good.
. "$(dirname "$0")/sync.sh"

cd "$d"
for i in 1 2; do
  mkdir "vm$i"
  qemu-img create -q -f qcow2 "vm$i/vda.qcow2" 16M
  qemu-io -f qcow2 -c "write -q -P $i 0 1M" "vm$i/vda.qcow2"
done
do_sync image:vm1/vda.qcow2 replica

mkdir other
echo precious >other/file
fails 1 'neither a replica nor empty' \
  nbdsync sync image:vm1/vda.qcow2 other
[[ $(ls -A other) = file ]] || die "something was put into other"
fails 1 'neither a replica nor empty' \
  nbdsync sync image:vm1/vda.qcow2 replica/current
fails 1 'neither a replica nor empty' \
  nbdsync sync image:vm1/vda.qcow2 replica/generations

# A vda, but of another machine.
fails 1 "another machine's" nbdsync sync image:vm2/vda.qcow2 replica
[[ $(nbdsync status --json replica | jq .generation) = 1 ]]
do_sync --full image:vm2/vda.qcow2 replica
same_content vm2/vda.qcow2 replica/current/vda.qcow2

# A disk that leaves is named.
qemu-img create -q -f qcow2 vm2/vdb.qcow2 16M
do_sync image:vm2/vda.qcow2,vm2/vdb.qcow2 replica
nbdsync sync image:vm2/vda.qcow2 replica 2>err
grep -q '^nbdsync: vdb: the replica has it, the source not' err ||
  die "vdb went without a word"

# An image that somebody has written to.
qemu-io -f qcow2 -c 'write -q -P 9 0 64k' replica/current/vda.qcow2
! nbdsync status replica >out || die "status calls a broken replica good"
grep -q 'problem: .*vda.qcow2: changed' out || die "status does not say why"
fails 1 'sync --full' nbdsync sync image:vm2/vda.qcow2 replica
do_sync --full image:vm2/vda.qcow2 replica
same_content vm2/vda.qcow2 replica/current/vda.qcow2
nbdsync status replica

# A generation below it that somebody has removed.
qemu-io -f qcow2 -c 'write -q -P 10 1M 64k' vm2/vda.qcow2
do_sync image:vm2/vda.qcow2 replica
expect_kind incremental
rm -r "replica/generations/$(printf %06d $(($(result .generation) - 1)))"
! nbdsync status replica >out || die "status calls a broken replica good"
grep -q 'problem: ' out || die "status does not say why"
fails 1 'sync --full' nbdsync sync image:vm2/vda.qcow2 replica
do_sync --full image:vm2/vda.qcow2 replica
same_content vm2/vda.qcow2 replica/current/vda.qcow2
