#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The pipeline by hand with something wrong in it: a bitmap that is missing,
# disabled, inconsistent or below the node; an export that is not there; a
# wire that was cut or bent; a target of another size, chain or generation.
# The filter does not serve, or the flush fails; never a target that says it
# is complete.
. "$(dirname "$0")/sync.sh"

cd "$d"
qemu-img create -q -f qcow2 disk.qcow2 64M
qemu-io -f qcow2 -c "write -q -s $(command -v qemu-img) 1M 1M" \
  -c "write -q -P 3 40M 9M" disk.qcow2
qemu-img bitmap --add disk.qcow2 good
qemu-img bitmap --add --disable disk.qcow2 disabled
qemu-img bitmap --add disk.qcow2 lost
qemu-io -f qcow2 -c "write -q -P 4 20M 1M" disk.qcow2

# --- The sender.

# An inconsistent bitmap: its QEMU was killed.
cp disk.qcow2 killed.qcow2
source_daemon victim killed
kill -9 "$started"
wait "$started" || true
source_daemon src killed
daemon=$started
jq -n '{chain: "00000000-0000-4000-8000-000000000001", base: 1}' >base.json

# no_service TEXT ARGS...: nbdkit with delta-send ends, and says why; or a
# client that connects is told.  (No --run: if nbdkit ends, it would wait.)
no_service() {
  local text=$1
  shift
  rm -f send.sock
  start nbdkit -f -U "$d/send.sock" --filter=delta-send "$@" \
    "delta-session=$d/base.json" 2>err
  wait_for 10 serves_or_ended "$started"
  ! timeout 10 nbdinfo --size "nbd+unix:///?socket=$d/send.sock" ||
    die "served: $*"
  stop "$started"
  cat err
  grep -Eq -- "$text" err || die "it does not say '$text': $*"
}
serves_or_ended() { [[ -S send.sock ]] || ! kill -0 "$1"; }

qmp_checks=("delta-qmp=$d/src.qmp" delta-node=killed)
no_service nosuch nbd "socket=$d/src.nbd" export=killed delta-bitmap=nosuch
no_service nosuch nbd "socket=$d/src.nbd" export=nosuch
no_service 'connect: No such file' nbd "socket=$d/gone.nbd"
no_service inconsistent nbd "socket=$d/src.nbd" export=killed \
  delta-bitmap=good "${qmp_checks[@]}"
no_service nosuch nbd "socket=$d/src.nbd" export=killed delta-bitmap=nosuch \
  "${qmp_checks[@]}"
no_service nosuch nbd "socket=$d/src.nbd" export=killed delta-bitmap=good \
  "delta-qmp=$d/src.qmp" delta-node=nosuch
no_service src.nbd nbd "socket=$d/src.nbd" export=killed delta-bitmap=good \
  "delta-qmp=$d/src.nbd" delta-node=killed
stop "$daemon"
source_daemon src2 disk
daemon=$started
no_service disabled nbd "socket=$d/src2.nbd" export=disk \
  delta-bitmap=disabled "delta-qmp=$d/src2.qmp" delta-node=disk
# Below an overlay: QEMU would find it there, frozen.
qemu-img create -q -f qcow2 over.qcow2 64M
qmp src2.qmp blockdev-add "{\"driver\": \"qcow2\", \"node-name\": \"over\",
  \"file\": {\"driver\": \"file\", \"filename\": \"$d/over.qcow2\"},
  \"backing\": null}"
qmp src2.qmp blockdev-snapshot '{"node": "disk", "overlay": "over"}'
no_service over nbd "socket=$d/src2.nbd" export=disk delta-bitmap=good \
  "delta-qmp=$d/src2.qmp" delta-node=over
stop "$daemon"

# --- The receiver, given streams from files.

start qemu-nbd -r -t -e 0 -f qcow2 -B good -k "$d/disk.nbd" disk.qcow2
wait_for 10 qemu-img info "nbd+unix:///?socket=$d/disk.nbd"
send() {
  nbdkit -f -U - --filter=delta-send nbd "socket=$d/disk.nbd" \
    delta-batch=1M "${@:2}" --run "nbdcopy \"\$uri\" $1"
}
receive() {
  nbdkit -f -U - delta-recv "target=$d/$2" --run "nbdcopy --flush $1 \"\$uri\""
}
complete() {
  [[ $(jq -r .state "$1.nbdsync.json" 2>/dev/null) = complete ]]
}
refused() {
  rm -f bent.target*
  ! receive bent.wire bent.target 2>err || die "$1: taken"
  ! complete bent.target || die "$1: complete"
  cat err
}

send full.wire
receive full.wire target.qcow2
complete target.qcow2
same_content disk.qcow2 target.qcow2

SLOT=$((128 << 20))
frames=$(($(stat -c %s full.wire) / SLOT))
((frames > 8)) || die "only $frames frames"
# One bit, in the envelope and in the packed bytes of several frames.
for at in 0 17 40 70 $((3 * SLOT)) $((3 * SLOT + 9)) $((3 * SLOT + 33)) \
    $((4 * SLOT + 50)) $((4 * SLOT + 90)); do
  cp --sparse=always full.wire bent.wire
  python3 - "$at" <<'END'
import sys
with open('bent.wire', 'r+b') as f:
    f.seek(int(sys.argv[1]))
    byte = f.read(1)[0] ^ 4
    f.seek(int(sys.argv[1]))
    f.write(bytes([byte]))
END
  refused "a bit at $at"
done
# A frame that claims 4 GiB, packed or unpacked.
for at in 32 40; do
  cp --sparse=always full.wire bent.wire
  python3 - "$((2 * SLOT + at))" <<'END'
import struct
import sys
with open('bent.wire', 'r+b') as f:
    f.seek(int(sys.argv[1]))
    f.write(struct.pack('<Q', 1 << 32))
END
  refused "4 GiB at $at"
done
# Cut: the last frame is not there; the middle of one is zeroes.
truncate -s $(((frames - 1) * SLOT)) bent.wire
cp --sparse=always full.wire bent.wire
truncate -s $(((frames - 1) * SLOT)) bent.wire
refused "no last frame"
cp --sparse=always full.wire bent.wire
fallocate -p -o $((5 * SLOT + 64)) -l 4096 bent.wire
refused "half a frame"
# Not a stream at all.
cp disk.qcow2 bent.wire
refused "a disk, not a stream"

# An increment on the replica it is for; on another chain, on another
# generation, and on an image of another size.
jq '{chain, base: .generation}' target.qcow2.nbdsync.json >session.json
send good.wire delta-bitmap=good "delta-session=$d/session.json"
not_applied() {
  local before
  before=$(sha256sum <target.qcow2)
  cp target.qcow2.nbdsync.json kept.json
  ! receive "$1" target.qcow2 2>err || die "$2: taken"
  cat err
  [[ $(sha256sum <target.qcow2) = "$before" ]] || die "$2: written"
  cmp target.qcow2.nbdsync.json kept.json || die "$2: marker changed"
}
jq '.chain = "00000000-0000-4000-8000-000000000002"' session.json >s2.json
send other.wire delta-bitmap=good "delta-session=$d/s2.json"
not_applied other.wire "another chain"
jq '.base += 5' session.json >s3.json
send later.wire delta-bitmap=good "delta-session=$d/s3.json"
not_applied later.wire "a later base"
qemu-img create -q -f qcow2 bent.target 65M
cp --sparse=always full.wire bent.wire
! receive bent.wire bent.target || die "a target of another size: taken"
! complete bent.target || die "a target of another size: complete"
receive good.wire target.qcow2
complete target.qcow2
same_content disk.qcow2 target.qcow2
