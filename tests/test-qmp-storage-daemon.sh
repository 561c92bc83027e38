#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The disks of a storage daemon: nodes that no other node uses, exported or
# not; not protocol nodes under them, nor backing images, nor our scratch.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
tool=$builddir/tests/qmp-tool
cd "$d"

qemu-img create -q -f qcow2 base.qcow2 64M
qemu-img create -q -f qcow2 -b base.qcow2 -F qcow2 top.qcow2
qemu-img create -q -f qcow2 exported.qcow2 1G
qemu-img create -q -f raw raw.img 1M
qemu-img create -q -f qcow2 left.qcow2 1G
start_qsd q \
  --blockdev driver=file,node-name=base-file,filename=base.qcow2 \
  --blockdev driver=qcow2,node-name=base,file=base-file \
  --blockdev driver=qcow2,node-name=top,file.driver=file,file.filename=top.qcow2,backing=base \
  --object throttle-group,id=g \
  --blockdev driver=qcow2,node-name=exp,file.driver=file,file.filename=exported.qcow2 \
  --blockdev driver=throttle,node-name=thr,throttle-group=g,file=exp \
  --blockdev driver=file,node-name=raw,filename=raw.img \
  --blockdev driver=qcow2,node-name=nbdsync-0123abcd-spool,file.driver=file,file.filename=left.qcow2 \
  --nbd-server addr.type=unix,addr.path=nbd \
  --export type=nbd,id=e,node-name=thr,name=exp,writable=on
"$tool" list q.qmp | tee list
cat >want <<END
name=top node=top driver=qcow2 file=$d/top.qcow2
name=exp node=exp driver=qcow2 file=$d/exported.qcow2
name=raw node=raw driver=raw file=$d/raw.img
END
sed 's/ device=.* node=/ node=/; s/ file_driver.*//' list | diff want -
grep -q 'name=top .* backing' list

# What a dead run left is removed, and nothing else.
"$tool" settle q.qmp 0123abcd
qmp q.qmp query-named-block-nodes '{"flat":true}' >nodes
! grep -q nbdsync- nodes
for n in base-file base top exp thr raw; do grep -q "\"$n\"" nodes; done
