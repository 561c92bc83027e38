#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Disks of odd sizes, full and increment: a sector, not a multiple of
# 4 KiB, 3 GiB, a clean run of exactly 4 GiB, every 16th cluster of 64 GiB,
# and 8 TiB that are nearly empty, which takes seconds and little memory.
. "$(dirname "$0")/sync.sh"

# sync_twice SIZE FIRST... -- SECOND...: qemu-io commands before the full
# sync and before the increment.
sync_twice() {
  local size=$1 commands=()
  shift
  rm -rf "$d/replica" "$d/disk.qcow2"
  qemu-img create -q -f qcow2 "$d/disk.qcow2" "$size"
  source_daemon src disk
  while [[ $1 != -- ]]; do
    commands+=("$1")
    shift
  done
  disk_io src disk "${commands[@]}"
  do_sync "qmp:$d/src.qmp" "$d/replica"
  expect_kind full
  disk_io src disk "${@:2}"
  do_sync "qmp:$d/src.qmp" "$d/replica"
  expect_kind incremental
  stop "$started"
  same_content "$d/disk.qcow2" "$d/replica/current/disk.qcow2"
  echo "$size: same"
}

sync_twice 512 "write -P 1 0 512" -- "write -P 2 0 512"
sync_twice $(((1 << 20) + 512)) "write -P 1 1M 512" "write -P 2 0 512" -- \
  "write -P 3 1M 512"
sync_twice 3G "write -P 1 0 1M" "write -P 2 3071M 1M" -- \
  "write -P 3 2G 64k" "discard 0 1M" "write -z 3071M 512k"
# Dirty, 4 GiB clean, dirty; and 3 GiB made zero.
sync_twice 16G "write -P 1 0 64k" "write -P 2 8G 64k" -- \
  "write -P 3 0 64k" "write -P 4 $(((4 << 30) + 65536)) 64k" \
  "write -z 8G 1536M" "write -z 9728M 1536M"

# Every 16th cluster of 64 GiB is dirty: one in 16 of these has data, the
# others were made zero, which is quicker for the test.
qemu-img create -q -f qcow2 "$d/many.qcow2" 64G
source_daemon many many
do_sync "qmp:$d/many.qmp" "$d/many"
# Up to 64 in flight, else it takes a minute.
for ((i = 0; i < 65536; i++)); do
  ((i % 16 == 0)) || echo "aio_write -q -z -u ${i}M 64k"
  ((i % 64)) || echo aio_flush
done | qemu-io -f raw "$(disk_uri many many)" >"$d/qemu-io.out"
for ((i = 0; i < 65536; i += 16)); do
  echo "aio_write -q -P 7 ${i}M 64k"
  ((i % 1024)) || echo aio_flush
done | qemu-io -f raw "$(disk_uri many many)" >"$d/qemu-io.out"
do_sync "qmp:$d/many.qmp" "$d/many"
expect_kind incremental
[[ $(result '.disks[0].dirty_bytes') = $((65536 * 65536)) ]] ||
  die "dirty: $(result '.disks[0].dirty_bytes')"
[[ $(result '.disks[0].data_bytes') = $((4096 * 65536)) ]] ||
  die "data: $(result '.disks[0].data_bytes')"
stop "$started"
same_content "$d/many.qcow2" "$d/many/current/many.qcow2"
rm -rf "$d"/many*

# 8 TiB: a full and an increment, each under 5 s, no process over 200 MiB.
qemu-img create -q -f qcow2 "$d/huge.qcow2" 8T
source_daemon huge huge
ends() {
  disk_io huge huge "write -P $1 0 64k" "write -P $1 $(((8 << 40) - 65536)) 64k"
}
quick_sync() {
  python3 - "$@" >"$d/result.json" <<'END' || die "slow, big or failed"
import resource
import subprocess
import sys
import time
started = time.monotonic()
rc = subprocess.run(sys.argv[1:]).returncode
seconds = time.monotonic() - started
rss = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
print(f'8 TiB: {seconds:.1f} s, {rss} MiB', file=sys.stderr)
sys.exit(rc or seconds > 5 or rss > 200)
END
}
for n in 1 2; do
  ends "$n"
  quick_sync nbdsync sync --json "qmp:$d/huge.qmp" "$d/huge"
  [[ $(result '.disks[0].data_bytes') = 131072 ]] ||
    die "data: $(cat "$d/result.json")"
done
expect_kind incremental
stop "$started"
same_content "$d/huge.qcow2" "$d/huge/current/huge.qcow2"
