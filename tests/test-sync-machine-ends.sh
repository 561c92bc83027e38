#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A machine that is killed during a precopy is noticed in 5 s; one that is
# killed while a spool is sent is not needed any more.  Either way it starts
# normally, and the next sync is right.
. "$(dirname "$0")/sync.sh"

qemu-img create -q -f qcow2 "$d/a.qcow2" 256M
head -c 24M /dev/urandom >"$d/noise"
qemu-io -f qcow2 -c "write -q -s $d/noise 0 24M" "$d/a.qcow2"

source_daemon src a
do_sync "qmp:$d/src.qmp" "$d/replica"

# killed_during OPTION...: kill QEMU when the first bytes of a sync with these
# options have gone; sets rc to its exit status.
killed_during() {
  local sync
  rm -f "$d/progress"
  nbdsync sync --full --progress --rate 32M "$@" --json \
    "qmp:$d/src.qmp" "$d/replica" >"$d/killed.json" 2>"$d/progress" &
  sync=$!
  wait_for 30 grep -qE ' [1-9][0-9]* %' "$d/progress"
  kill -9 "$started"
  wait "$started" || true
  at=$SECONDS
  rc=0
  wait "$sync" || rc=$?
  took=$((SECONDS - at))
  tail -n 1 "$d/progress"
}

killed_during --scratch-limit 0
((rc == 1)) || die "exit $rc after the machine has ended during a precopy"
((took <= 5)) || die "noticed after $took s"
[[ $(jq -r .result "$d/killed.json") = failed ]] || die "the JSON does not say"
[[ $(nbdsync status --json "$d/replica" | jq .generation) = 1 ]] ||
  die "the replica has changed"
source_daemon src a
do_sync "qmp:$d/src.qmp" "$d/replica"
expect_kind full
same_content "$(disk_uri src a)" "$d/replica/current/a.qcow2"

killed_during
((rc == 0)) || die "exit $rc though the spool was complete"
source_daemon src a
same_content "$(disk_uri src a)" "$d/replica/current/a.qcow2"
do_sync "qmp:$d/src.qmp" "$d/replica"
same_content "$(disk_uri src a)" "$d/replica/current/a.qcow2"
