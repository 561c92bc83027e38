#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A replica that was copied or restored never believes a bitmap that another
# copy's sync has made: all copies stay right, whoever syncs when, also
# where they give the same number to a generation, where the bitmap that
# would tell was lost, and where a sync died between its two commits.
. "$(dirname "$0")/sync.sh"

qemu-img create -q -f qcow2 "$d/a.qcow2" 64M
source_daemon src a
pattern=0

# write_more: another 64 KiB, another pattern.
write_more() {
  pattern=$((pattern + 1))
  disk_io src a "write -P $pattern $((pattern % 50))M 64k"
}

# sync REPLICA KIND: write, sync into it, compare.
sync() {
  write_more
  do_sync "qmp:$d/src.qmp" "$d/$1"
  expect_kind "$2"
  same_content "$(disk_uri src a)" "$d/$1/current/a.qcow2"
}

sync r1 full
cp -a "$d/r1" "$d/r2"
cp -a "$d/r1" "$d/old"

# r1 goes on with the chain, r2 takes another one.
sync r1 incremental
[[ $(nbdsync sync --dry-run --json "qmp:$d/src.qmp" "$d/r2" |
       jq -r '.disks[0].kind') = full ]] || die "a dry run sees no copy"
sync r2 full
grep -q 'the replica is a copy' "$d/result.json" ||
  die "the reason is not said"
for n in 1 2 3; do
  sync r1 incremental
  sync r2 incremental
done

# A move is none.
mv "$d/r1" "$d/moved"
sync moved incremental
mv "$d/moved" "$d/r1"

# r1 is restored from the oldest copy; r2 does not notice.
rm -rf "$d/r1"
mv "$d/old" "$d/r1"
sync r1 full
sync r2 incremental
sync r1 incremental

# The bitmap of the copy that is ahead is lost with QEMU.
cp -a "$d/r1" "$d/r3"
sync r1 incremental
kill -9 "$started"
wait "$started" || true
source_daemon src a
sync r3 full
sync r1 full
sync r3 incremental
sync r1 incremental

# A sync dies when the replica has committed and the source has not: both
# bitmaps are there.
cp -a "$d/r1" "$d/r4"
write_more
NBDSYNC_FAULT=sync-generation NBDSYNC_FAULT_LOG="$d/fault" \
  nbdsync sync "qmp:$d/src.qmp" "$d/r1" &
stopped=$!
wait_for 30 grep -q sync-generation "$d/fault"
children=$(cat "/proc/$stopped/task/$stopped/children")
kill -9 "$stopped"
for p in $children; do wait_for 20 test ! -e "/proc/$p"; done
sync r4 full
sync r1 incremental
sync r4 incremental
