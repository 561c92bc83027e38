#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A QEMU that runs as a user of its own, as libvirt's do, and that left the
# directory its image's name is relative to (-daemonize): full and
# incremental, by spool and by precopy.
. "$(dirname "$0")/sync.sh"

requires test "$EUID" = 0
requires command -v setpriv
chmod 755 "$d"
mkdir "$d/vm"
qemu-img create -q -f qcow2 "$d/vm/disk.qcow2" 64M
qemu-io -f qcow2 -c 'write -q -P 1 0 1M' "$d/vm/disk.qcow2"
chown -R 65534:65534 "$d/vm"
(cd "$d/vm" && setpriv --reuid=65534 --regid=65534 --clear-groups \
   qemu-system-x86_64 -nodefaults -display none -daemonize -S \
   -pidfile pid -qmp unix:qmp,server=on,wait=off \
   -drive file=disk.qcow2,if=virtio,id=vda)
cleanup_fn kill "$(cat "$d/vm/pid")"
backend=$(nbdsync disks --json "qmp:$d/vm/qmp" | jq -r '.[0].device')
guest_write() {
  qmp "$d/vm/qmp" human-monitor-command \
    "{\"command-line\": \"qemu-io -d $backend \\\"write -P $1\\\"\"}"
}

[[ $(nbdsync disks --json "qmp:$d/vm/qmp" | jq -r '.[0].file') = \
   "$d/vm/disk.qcow2" ]] || die "the image is not found"
do_sync "qmp:$d/vm/qmp,disk=vda" "$d/replica"
guest_write "2 2M 64k"
do_sync "qmp:$d/vm/qmp" "$d/replica"
expect_kind incremental
guest_write "3 3M 64k"
do_sync --scratch-limit 0 "qmp:$d/vm/qmp" "$d/replica"
expect_kind incremental
[[ -z $(find "$d/vm" -name '.nbdsync*') ]] || die "scratch is left"

qmp "$d/vm/qmp" quit
wait_for 10 qemu-img check -q "$d/vm/disk.qcow2"
same_content "$d/vm/disk.qcow2" "$d/replica/current/vda.qcow2"
