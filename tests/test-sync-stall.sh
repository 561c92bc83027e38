#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A receiver that hangs ends the sync after --stall-timeout, with one line;
# the source is as before, and the next sync is right.
. "$(dirname "$0")/sync.sh"

qemu-img create -q -f qcow2 "$d/a.qcow2" 256M
head -c 64M /dev/urandom >"$d/noise"
qemu-io -f qcow2 -c "write -q -s $d/noise 0 64M" "$d/a.qcow2"
source_daemon src a
before=$(source_state "$d/src.qmp")

# The receiver's nbdkit is the one whose arguments name our replica.
receiver() {
  local p
  for p in /proc/[0-9]*; do
    tr '\0' ' ' 2>/dev/null <"$p/cmdline" |
      grep -q "delta-recv.* dir=$d/replica " && echo "${p#/proc/}" && return
  done
  return 1
}

nbdsync sync --stall-timeout 3 --rate 64M --json "qmp:$d/src.qmp" \
  "$d/replica" >"$d/stall.json" 2>"$d/stall.err" &
sync=$!
wait_for 30 receiver
hung=$(receiver)
kill -STOP "$hung"
rc=0
wait "$sync" || rc=$?
kill -CONT "$hung" 2>/dev/null || true
cat "$d/stall.err"
((rc == 1)) || die "exit $rc"
[[ $(wc -l <"$d/stall.err") = 1 ]] || die "not one line"
grep -q 'nothing has moved for 3 s' "$d/stall.err" || die "not this line"
[[ $(source_state "$d/src.qmp") = "$before" ]] ||
  die "left in QEMU: $(source_state "$d/src.qmp")"

do_sync "qmp:$d/src.qmp" "$d/replica"
same_content "$(disk_uri src a)" "$d/replica/current/a.qcow2"
