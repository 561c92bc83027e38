#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A write that allocates an L2 table is not to be seen in the file until the
# flush, and after it is: in a machine and in a storage daemon, whether or
# not it has an NBD server.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
requires qemu-system-x86_64 --version
tool=$builddir/tests/qmp-tool
cd "$d"

# outside FILE OFFSET BYTE: is it that, from outside?
outside() { qemu-io -U -r -c "read -P $3 $2 4k" "$1" >outside.out 2>&1; }

# check MONITOR DISK FILE WRITE...: WRITE OFFSET writes 0x55 there.
check() {
  local monitor=$1 disk=$2 file=$3 i
  shift 3
  for i in 1 2 3; do
    "$@" "${i}G"
    outside "$file" "${i}G" 0 || die "seen without a flush: no control"
    "$tool" flush "$monitor" "$disk" | grep ' ms$'
    outside "$file" "${i}G" 0x55 || die "not seen after the flush"
  done
}

qemu-img create -q -f qcow2 vm.qcow2 8G
start qemu-system-x86_64 -accel tcg -m 32 -nodefaults -nographic -S \
  -qmp "unix:$d/m,server=on,wait=off" \
  -blockdev driver=qcow2,node-name=n0,file.driver=file,file.filename=vm.qcow2 \
  -device virtio-blk-pci,drive=n0,id=vda
wait_for 10 test -S m
hmp_write() {
  local device=/machine/peripheral/vda/virtio-backend
  qmp m human-monitor-command "{\"command-line\":
    \"qemu-io -d $device \\\"write -P 0x55 $1 4k\\\"\"}"
}
check m vda vm.qcow2 hmp_write
[[ $(qmp m query-status) = *'"prelaunch"'* ]]

qemu-img create -q -f qcow2 sd.qcow2 8G
start_qsd q \
  --blockdev driver=qcow2,node-name=a,file.driver=file,file.filename=sd.qcow2 \
  --nbd-server addr.type=unix,addr.path=nbd \
  --export type=nbd,id=a,node-name=a,name=a,writable=on
# qemu-io and libnbd's tools flush when they close: not this one.
cat >write.py <<'END'
import socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.connect('nbd')
f = s.makefile('rb')
f.read(18)
s.sendall(struct.pack('>I8sII', 3, b'IHAVEOPT', 1, 1) + b'a')
f.read(10)
s.sendall(struct.pack('>IHHQQI', 0x25609513, 0, 1, 7,
                      int(sys.argv[1][:-1]) << 30, 4096) + b'\x55' * 4096)
assert f.read(16)[4:8] == bytes(4)
END
check q.qmp a sd.qcow2 python3 write.py
[[ $(qmp q.qmp query-block-exports | grep -o '"id"' | wc -l) = 1 ]]
nbdinfo --size "nbd+unix:///a?socket=$d/nbd"

# One hundred under writes: nothing breaks, nothing is left.
qemu-img bench -q -f raw -c 100000000 -w -o 4G -S 65536 \
  "nbd+unix:///a?socket=$d/nbd" >/dev/null 2>&1 &
bench=$!
test_pids+=($bench)
for ((i = 0; i < 100; i++)); do "$tool" flush q.qmp a >/dev/null; done
kill -0 $bench
[[ $(qmp q.qmp query-block-exports | grep -o '"id"' | wc -l) = 1 ]]
