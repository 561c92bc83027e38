#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# 30 syncs of two disks under constant random writes, discards and zeroes,
# some of them precopies: every generation is the exact state of both disks
# at one instant after its sync began; after a last quiet sync the replica
# is what the source is.
. "$(dirname "$0")/sync.sh"

SYNCS=30
OPS_A_SECOND=150

qemu-img create -q -f qcow2 "$d/a.qcow2" 256M
qemu-img create -q -f qcow2 -o cluster_size=4k "$d/b.qcow2" 256M
source_daemon src a b
daemon=$started
start "$builddir/tests/workload" write "$d/log" \
  "$(disk_uri src a)" "$(disk_uri src b)" $OPS_A_SECOND 7
writer=$started

operation() { tail -n 1 "$d/log" | cut -d' ' -f1; }
reached() { (($(operation) >= $1)); }

wait_for 60 reached 200
images=() earliest=()
for ((n = 1; n <= SYNCS; n++)); do
  options=()
  ((n % 5)) || options+=(--scratch-limit 0)
  # A slow full, so that much is written during the precopy.
  ((n != 12)) || options+=(--full --scratch-limit 0 --rate 40M)
  last=$(operation)
  earliest+=("$last")
  do_sync "${options[@]}" "qmp:$d/src.qmp" "$d/replica"
  if ((n == 1 || n == 12)); then
    expect_kind full
  else
    expect_kind incremental
  fi
  g=$(generation_dir "$d/replica")
  [[ "$(readlink -f "$d/replica/current")" = "$(readlink -f "$g")" ]] ||
    die "current is not generation $(result .generation)"
  images+=("$g/a.qcow2" "$g/b.qcow2")
  wait_for 60 reached $((last + 20))
done
stop "$writer"

"$builddir/tests/workload" check "$d/log" "${images[@]}" |
  tee "$d/instants" || die "a generation is not one instant"
n=0
while read -r _ _ instant; do
  ((instant + 1 >= earliest[n])) ||
    die "sync $((n + 1)) gave instant $instant, before it began"
  n=$((n + 1))
done <"$d/instants"
((n == SYNCS)) || die "$n generations were checked"

do_sync "qmp:$d/src.qmp" "$d/replica"
do_sync "qmp:$d/src.qmp" "$d/replica"
expect_kind unchanged
stop "$daemon"
same_content "$d/a.qcow2" "$d/replica/current/a.qcow2"
same_content "$d/b.qcow2" "$d/replica/current/b.qcow2"
