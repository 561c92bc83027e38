#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A disk that is resized, live or stopped, is followed: grown at once,
# shrunk only if the user says that it is meant; the machine's other disk
# stays incremental; a resize during a sync fails that one sync.
. "$(dirname "$0")/sync.sh"

for disk in a b; do
  qemu-img create -q -f qcow2 "$d/$disk.qcow2" 64M
done
source_daemon src a b
# resize MIB: of disk a, which no export may have open meanwhile.
resize() {
  qmp "$d/src.user" block-export-del '{"id": "e-a", "mode": "hard"}'
  wait_for 10 export_gone
  qmp "$d/src.user" block_resize \
    "{\"node-name\": \"a\", \"size\": $(($1 << 20))}"
  qmp "$d/src.user" block-export-add '{"type": "nbd", "id": "e-a",
    "node-name": "a", "name": "a", "writable": true}'
} >/dev/null
export_gone() {
  ! qmp "$d/src.user" query-block-exports | jq -e '.[] | select(.id == "e-a")'
} >/dev/null

# synced KIND-OF-A OPTION...: b is written to as well, and incremental.
synced() {
  local kind=$1 disk
  shift
  disk_io src b 'write -P 2 5M 64k'
  do_sync "$@" "qmp:$d/src.qmp" "$d/replica"
  [[ $(result '[.disks[].kind] | join(" ")') = "$kind" ]] ||
    die "not $kind: $(cat "$d/result.json")"
  for disk in a b; do
    same_content "$(disk_uri src $disk)" "$d/replica/current/$disk.qcow2"
  done
}

disk_io src a 'write -P 1 1M 1M' 'write -P 3 60M 1M'
synced 'full full'

# Grown, and written to in the new part.
resize 96
disk_io src a 'write -P 4 90M 64k'
synced 'full incremental'
result '.disks[0].reason' | grep -q 'has grown' || die "the reason is not said"
disk_io src a 'write -P 5 91M 64k'
synced 'incremental incremental'

# Shrunk: refused, by name, and nothing is changed at either end.
resize 32
before=$(source_state "$d/src.qmp")
generation=$(readlink "$d/replica/current")
for option in '' --full --dry-run; do
  fails 1 '^nbdsync: a: .*--allow-shrink' \
    nbdsync sync $option "qmp:$d/src.qmp" "$d/replica"
done
[[ $(readlink "$d/replica/current") = "$generation" ]] ||
  die "a refused sync made a generation"
[[ $(source_state "$d/src.qmp") = "$before" ]] || die "left at the source"
synced 'full incremental' --allow-shrink
result '.disks[0].reason' | grep -q 'has been shrunk' ||
  die "the reason is not said"
synced 'unchanged incremental'

# During a precopy, whose instant would be of a disk of another size.
disk_io src a 'write -P 6 3M 64k'
sync_stopping_at sync-pass --scratch-limit 0 "qmp:$d/src.qmp" \
  "$d/replica"
resize 48
signal_sync CONT
! wait "$sync" || die "a sync over a resize succeeded"
cat "$d/stopped.err"
grep -q '^nbdsync: a: .*resized.*: run again$' "$d/stopped.err" ||
  die "it does not say so"
synced 'full incremental'

# Stopped.
qmp "$d/src.user" quit >/dev/null
wait "$started"
qemu-img resize -q "$d/a.qcow2" 80M
do_sync "image:$d/a.qcow2,$d/b.qcow2" "$d/replica"
[[ $(result '[.disks[].kind] | join(" ")') = 'full unchanged' ]] ||
  die "stopped: $(cat "$d/result.json")"
same_content "$d/a.qcow2" "$d/replica/current/a.qcow2"
qemu-img resize -q --shrink "$d/a.qcow2" 16M
fails 1 '^nbdsync: a: .*--allow-shrink' \
  nbdsync sync "image:$d/a.qcow2,$d/b.qcow2" "$d/replica"
do_sync --allow-shrink "image:$d/a.qcow2,$d/b.qcow2" "$d/replica"
same_content "$d/a.qcow2" "$d/replica/current/a.qcow2"
