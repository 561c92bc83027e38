#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The list of a machine's disks: names, the active node below filters,
# backing, iothreads of devices and of controllers, empty and read-only
# drives, bitmaps of the active node only.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
requires qemu-system-x86_64 --version
tool=$builddir/tests/qmp-tool
cd "$d"

qemu-img create -q -f qcow2 base.qcow2 64M
qemu-img bitmap --add base.qcow2 below
qemu-img create -q -f qcow2 -b base.qcow2 -F qcow2 top.qcow2
qemu-img create -q -f qcow2 -o compat=0.10 old.qcow2 1G
qemu-img create -q -f qcow2 scsi.qcow2 10M
qemu-img create -q -f raw raw.img 10M
qemu-img create -q -f raw ro.img 1M
truncate -s 3M window.img

file() { echo "{\"driver\":\"file\",\"filename\":\"$d/$1\"}"; }
start qemu-system-x86_64 -accel tcg -m 32 -nodefaults -nographic -S \
  -qmp "unix:$d/m,server=on,wait=off" \
  -object iothread,id=io0 -object throttle-group,id=g \
  -blockdev "{\"driver\":\"qcow2\",\"node-name\":\"n0\",\"file\":$(file top.qcow2)}" \
  -blockdev '{"driver":"copy-on-read","node-name":"cor","file":"n0"}' \
  -blockdev '{"driver":"throttle","node-name":"t0","throttle-group":"g","file":"cor"}' \
  -device virtio-blk-pci,drive=t0,id=vda,iothread=io0 \
  -drive file=old.qcow2,if=none,id=drv1,format=qcow2 \
  -device virtio-blk-pci,drive=drv1,id=vdb \
  -drive file=raw.img,if=virtio,format=raw \
  -device virtio-scsi-pci,id=scsi0,iothread=io0 \
  -drive file=scsi.qcow2,if=none,id=drv2,format=qcow2 \
  -device scsi-hd,drive=drv2,bus=scsi0.0,id=sda \
  -blockdev "{\"driver\":\"raw\",\"node-name\":\"win\",\"offset\":1048576,\"size\":1048576,\"file\":$(file window.img)}" \
  -device virtio-blk-pci,drive=win,id=vdw \
  -blockdev "{\"driver\":\"file\",\"node-name\":\"ro\",\"filename\":\"$d/ro.img\",\"read-only\":true}" \
  -device virtio-blk-pci,drive=ro,id=vdr \
  -device ide-cd,id=cd0
wait_for 10 test -S m
"$tool" bitmap-add m vda ours 65536
"$tool" list m | tee list

# has NAME WORDS...: the line of that disk has all these.
has() {
  local line word
  line=$(grep "^name=$1 " list) || die "no disk $1"
  shift
  for word in "$@"; do
    [[ " $line " = *" $word "* ]] || die "no '$word' in: $line"
  done
}
hasnt() { ! grep "^name=$1 .* $2" list || die "$1 has $2"; }

[[ $(wc -l <list) = 7 ]]
has vda device=vda node=n0 driver=qcow2 "file=$d/top.qcow2" file_driver=file \
  size=67108864 cluster=65536 backing iothread persist \
  bitmap=ours,65536,0,recording,persistent unsuitable=- spool_only=-
hasnt vda 'bitmap=below'
has vdb device=vdb driver=qcow2 "file=$d/old.qcow2" size=1073741824 spool_only=-
hasnt vdb persist
hasnt vdb iothread
has virtio0 driver=raw "file=$d/raw.img" size=10485760 cluster=0 spool_only=-
has sda driver=qcow2 iothread persist
has vdw driver=raw size=1048576 unsuitable=-
grep '^name=vdw .* spool_only=not an image' list
has vdr driver=raw ro unsuitable=read-only
has cd0 node= 'unsuitable=no medium'

# A disk that a throttled device has can be flushed and spooled.
"$tool" flush m vda
"$tool" flush m sda
"$tool" spool m 0 20000 4096 vda ours new "$d/sp.qcow2" 0123abcd
"$tool" list m | grep bitmap=new,4096,0,recording,persistent >/dev/null

