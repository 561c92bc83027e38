#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A replica that was copied or restored never believes a bitmap that another
# copy's sync has made: both copies stay right, whoever syncs when, also
# where they would give the same number to a generation.
. "$(dirname "$0")/sync.sh"

qemu-img create -q -f qcow2 "$d/a.qcow2" 64M
source_daemon src a
disk_io src a 'write -P 1 0 1M'
do_sync "qmp:$d/src.qmp" "$d/r1"
cp -a "$d/r1" "$d/r2"
cp -a "$d/r1" "$d/old"

# sync REPLICA KIND PATTERN: write, sync into it, compare.
sync() {
  disk_io src a "write -P $3 ${3}M 64k"
  do_sync "qmp:$d/src.qmp" "$d/$1"
  expect_kind "$2"
  same_content "$(disk_uri src a)" "$d/$1/current/a.qcow2"
}

# r1 goes on with the chain, r2 takes another one.
sync r1 incremental 2
sync r2 full 3
grep -q 'older than what the source remembers' "$d/result.json" ||
  die "the reason is not said"
for n in 4 6 8; do
  sync r1 incremental "$n"
  sync r2 incremental $((n + 1))
done

# r1 is restored from the oldest copy; r2 does not notice.
rm -rf "$d/r1"
mv "$d/old" "$d/r1"
sync r1 full 10
sync r2 incremental 11
sync r1 incremental 12
# Two chains, a bitmap of each, and those of the chain that was lost.
nbdsync disks "qmp:$d/src.qmp"
