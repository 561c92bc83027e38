#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A receiver that hangs ends the sync after --stall-timeout, with one line;
# the source is as before, and the next sync is right.
. "$(dirname "$0")/sync.sh"

# More than what can be on its way (nbdcopy has 16 MiB for a connection), so
# that frames are left whenever the receiver stops.
qemu-img create -q -f qcow2 "$d/a.qcow2" 256M
head -c 160M /dev/urandom >"$d/noise"
qemu-io -f qcow2 -c "write -q -s $d/noise 0 160M" "$d/a.qcow2"
source_daemon src a
before=$(source_state "$d/src.qmp")

# It is the receiver's nbdkit that stops itself, at its third frame.
sync_stopping_at receive-frame:3 --stall-timeout 3 "qmp:$d/src.qmp" \
  "$d/replica"
hung=$(sed -n 's/^stopped receive-frame \([0-9]*\) .*/\1/p' "$d/fault")
[[ $(cat "/proc/$hung/comm") = nbdkit ]] || die "$hung is no nbdkit"
rc=0
wait "$sync" || rc=$?
kill -CONT "$hung" 2>/dev/null || true
cat "$d/stopped.err"
((rc == 1)) || die "exit $rc"
[[ $(wc -l <"$d/stopped.err") = 1 ]] || die "not one line"
grep -q 'nothing has moved for 3 s' "$d/stopped.err" || die "not this line"
[[ $(source_state "$d/src.qmp") = "$before" ]] ||
  die "left in QEMU: $(source_state "$d/src.qmp")"

do_sync "qmp:$d/src.qmp" "$d/replica"
same_content "$(disk_uri src a)" "$d/replica/current/a.qcow2"
