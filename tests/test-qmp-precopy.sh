#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What voids a pass: an internal snapshot taken or deleted, a resize that
# moves the L1 table, a block job that ran in between or still runs, another
# active layer.  Writes, discards and new L2 tables do not.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
requires qemu-system-x86_64 --version
tool=$builddir/tests/qmp-tool
cd "$d"

qemu-img create -q -f qcow2 base.qcow2 4G
qemu-img create -q -f qcow2 -o cluster_size=64K -b base.qcow2 -F qcow2 a.qcow2
qemu-io -c 'write -P 1 0 1M' a.qcow2 >/dev/null
qemu-img create -q -f raw r.img 16M
start qemu-system-x86_64 -accel tcg -m 32 -nodefaults -nographic -S \
  -qmp "unix:$d/m,server=on,wait=off" -qmp "unix:$d/m2,server=on,wait=off" \
  -blockdev driver=qcow2,node-name=n0,discard=unmap,file.driver=file,file.filename=a.qcow2 \
  -device virtio-blk-pci,drive=n0,id=vda \
  -blockdev driver=raw,node-name=n1,file.driver=file,file.filename=r.img \
  -device virtio-blk-pci,drive=n1,id=vdb
wait_for 10 test -S m2
io() { # DISK COMMAND
  local device=/machine/peripheral/$1/virtio-backend answer
  answer=$(qmp m2 human-monitor-command \
    "{\"command-line\":\"qemu-io -d $device \\\"$2\\\"\"}")
  [[ $answer = '""' ]] || die "qemu-io $2: $answer"
}
snapshot() { qmp m2 "blockdev-snapshot-$1" "{\"device\":\"n0\",\"name\":\"$2\"}"; }
no_jobs() { [[ $(qmp m2 query-jobs) = '[]' ]]; }

# pass DISK CMD...: what a pass says, during which CMD runs.
pass() {
  local disk=$1 r=0
  shift
  rm -f go
  mkfifo go
  "$tool" precopy m "$disk" <go >begun 2>verdict &
  tool_pid=$!
  exec 9>go
  wait_for 10 grep begun begun
  "$@"
  echo >&9
  exec 9>&-
  wait $tool_pid || r=1
  cat verdict
  return $r
}
good() { pass "$@" || die "void"; }
void() {
  local text=$1
  shift
  ! pass "$@" || die "not void: $*"
  grep -q "the pass is void: $text" verdict
  grep -q ESTALE begun
}

good vda true
writes() { io vda 'write -P 2 0 64k'; io vda 'discard 64k 64k'; io vda 'write 3G 64k'; }
good vda writes
good vdb io vdb 'write 1M 64k'

void 'an internal snapshot' vda snapshot internal-sync s1
# A table that s1 shares is copied when it is written to: the old one stays.
good vda io vda 'write -P 3 0 64k'
snapshot internal-sync s2
void 'an internal snapshot' vda snapshot delete-internal-sync s1
snapshot delete-internal-sync s2

# A resize: the size tells; and one there and back the L1 table.
void 'the disk was resized' vda \
  qmp m2 block_resize '{"node-name":"n0","size":8589934592}'
there_and_back() {
  qmp m2 block_resize '{"node-name":"n0","size":68719476736}'
  qmp m2 block_resize '{"node-name":"n0","size":8589934592}'
}
void 'the L1 table moved' vda there_and_back
void 'the disk was resized' vdb \
  qmp m2 block_resize '{"node-name":"n1","size":33554432}'

# Jobs: over before the end, still running, there before the beginning.
# One that reads only is nobody's harm.
commit() {
  qmp m2 block-commit '{"job-id":"c","device":"n0","top-node":"n0","auto-dismiss":true}'
  wait_for 10 sh -c "python3 '$srcdir/tests/qmp.py' m2 query-jobs | grep '\"ready\"'"
  qmp m2 job-cancel '{"id":"c"}'
  wait_for 10 no_jobs
}
void 'a block job ran' vda commit
io vda 'write 100M 1M'
qmp m2 blockdev-add '{"driver":"null-co","node-name":"null","size":8589934592}'
backup() {
  qmp m2 blockdev-backup \
    '{"job-id":"b","device":"n0","target":"null","sync":"top"}'
  wait_for 10 no_jobs
}
good vda backup
qemu-img create -q -f qcow2 over.qcow2 8G
overlay() {
  qmp m2 blockdev-add '{"driver":"qcow2","node-name":"over","backing":null,
    "file":{"driver":"file","filename":"over.qcow2"}}'
  qmp m2 blockdev-snapshot '{"node":"n0","overlay":"over"}'
}
void 'the active layer' vda overlay
qmp m2 block-commit '{"job-id":"c","device":"over","top-node":"over"}'
fails 1 'a block job is running' "$tool" precopy m vda </dev/null
