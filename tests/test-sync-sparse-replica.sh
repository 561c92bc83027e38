#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An increment into a replica whose image has holes (as a copy with
# cp --sparse or rsync -S has, or a trimmed one): clusters of which a part is
# written and the rest is zeroed are right.  QEMU loses such zeroes if it
# gets both at once (receiver/writer.c).
. "$(dirname "$0")/sync.sh"

CLUSTERS=1024

# To each cluster: PATTERN:OFFSET:LENGTH...
commands() {
  local c w pattern offset length
  for ((c = 0; c < CLUSTERS; c++)); do
    for w; do
      IFS=: read -r pattern offset length <<<"$w"
      echo "write -q -P $pattern $((c * 65536 + offset)) $length"
    done
  done | qemu-io -f raw "$(disk_uri src a)" >/dev/null
}

qemu-img create -q -f qcow2 "$d/a.qcow2" 64M
source_daemon src a
commands 1:40960:20480
do_sync "qmp:$d/src.qmp" "$d/replica"
image=$d/replica/current/a.qcow2
before=$(stat -c %b "$image")
cp -a --sparse=always "$image" "$d/sparse"
mv "$d/sparse" "$image"
# Blocks that were only reserved count: QEMU looks into files with few.
(($(stat -c %b "$image") < before / 2)) || die "there are not enough holes"
commands 2:8192:28672 0:36864:28672
do_sync "qmp:$d/src.qmp" "$d/replica"
expect_kind incremental
same_content "$d/a.qcow2" "$d/replica/current/a.qcow2"
