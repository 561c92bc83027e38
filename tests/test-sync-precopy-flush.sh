#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Why a precopy flushes QEMU's metadata first: a write that allocates a new
# L2 table is in QEMU's cache only, so that a bitmap added after it does not
# have it and the image file does not either.  Reading from outside gets it
# wrong without a flush, right with one, and nbdsync gets it right.
. "$(dirname "$0")/sync.sh"

requires command -v qemu-system-x86_64

qemu-img create -q -f qcow2 "$d/disk.qcow2" 4G
start qemu-system-x86_64 -accel kvm -accel tcg -m 32 -nodefaults \
  -display none -qmp "unix:$d/vm.qmp,server=on,wait=off" \
  -blockdev "qcow2,node-name=disk,file.driver=file,file.filename=$d/disk.qcow2" \
  -device ide-hd,drive=disk,id=vda
wait_for 10 qmp "$d/vm.qmp" query-status

# As by the guest.  (The device is not in an iothread; nor virtio-blk, where
# the BIOS asks for writes that are flushed, which hides all this.)
guest_io() {
  local said
  said=$(qmp "$d/vm.qmp" human-monitor-command \
    "{\"command-line\": \"qemu-io -d vda \\\"$1\\\"\"}")
  [[ $said = '""' || $said = *bytes* ]] || die "qemu-io $1: $said"
}

dirty_count() {
  qmp "$d/vm.qmp" query-named-block-nodes |
    jq ".[] | select(.\"node-name\" == \"disk\") |
        .\"dirty-bitmaps\"[] | select(.name == \"$1\") | .count"
}

# Does the image file, read from outside, have 64 KiB of a byte there?
file_has() {
  qemu-io -U -r -f qcow2 -c "read -P $1 $2 64k" "$d/disk.qcow2" \
    >"$d/read.out" 2>&1 || true
  grep -q '^read 65536/65536' "$d/read.out" || die "$(cat "$d/read.out")"
  ! grep -q 'verification failed' "$d/read.out"
}

# 64 KiB clusters: one L2 table for 512 MiB.
guest_io "write -P 0x11 0 64k"
guest_io "flush"
guest_io "write -P 0x22 512M 64k"
qmp "$d/vm.qmp" block-dirty-bitmap-add '{"node": "disk", "name": "b1"}'
file_has 0x11 0 || die "what was flushed is not in the file"
file_has 0x22 512M && die "the control is void: nothing was in the cache"
[[ $(dirty_count b1) = 0 ]] || die "the bitmap has what came before it"
guest_io "flush"
file_has 0x22 512M || die "a flush does not bring it into the file"
qmp "$d/vm.qmp" block-dirty-bitmap-remove '{"node": "disk", "name": "b1"}'

# A full and an increment, each with such a write before it.
for n in 2 3; do
  guest_io "write -P 0x3$n ${n}G 64k"
  file_has "0x3$n" "${n}G" && die "void: nothing was in the cache before $n"
  do_sync --scratch-limit 0 "qmp:$d/vm.qmp" "$d/replica"
  guest_io "flush"
  same_content "$d/disk.qcow2" "$d/replica/current/vda.qcow2"
done
