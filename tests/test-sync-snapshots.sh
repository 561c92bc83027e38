#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A guest that writes for ever, and its user who takes external snapshots
# and commits them again, between syncs and during them: each generation is
# an instant of the guest, and every sync after the first is incremental.
. "$(dirname "$0")/kvm.sh"

images=()
top=0                           # snapshots over the images, for their names

# more_rounds: let the guest write on.
more_rounds() { wait_for 60 guest_wrote $(($(guest_rounds) + 10)); }

# synced OPTION...: a sync, its images kept for the end.
synced() {
  local g
  more_rounds
  do_sync "$@" "qmp:$d/vm.qmp" "$d/replica"
  g=$(generation_dir "$d/replica")
  images+=("$g/vda.qcow2" "$g/vdb.qcow2")
}

# reason TEXT: all disks of the last sync were incremental, and why.
reason() {
  expect_kind incremental
  [[ $(result "[.disks[].reason | contains(\"$1\")] | all") = true ]] ||
    die "another reason than $1: $(result '.disks[].reason')"
}

# snapshot: of both disks at once, as virsh does it.
snapshot() {
  local below=$top
  top=$((top + 1))
  qmp "$d/vm.user" transaction "$(jq -n --arg d "$d" --arg n $top \
    --arg a "$(node a $below)" --arg b "$(node b $below)" \
    '{actions: [["a", $a], ["b", $b] |
        {type: "blockdev-snapshot-sync",
         data: {"node-name": .[1], "snapshot-node-name": (.[0] + $n),
                "snapshot-file": "\($d)/\(.[0] + $n).qcow2"}}]}')" >/dev/null
}
node() { (($2 > 0)) && echo "$1$2" || echo "$1"; }

# commit: all snapshots of both disks into what is below them, under writes.
commit() {
  local disk n
  for disk in a b; do
    qmp "$d/vm.user" block-commit \
      "{\"job-id\": \"c$disk\", \"device\": \"$disk$top\"}" >/dev/null
    wait_for 60 job_ready "c$disk"
    qmp "$d/vm.user" job-complete "{\"id\": \"c$disk\"}" >/dev/null
    wait_for 60 job_gone "c$disk"
    for ((n = top; n > 0; n--)); do
      rm "$d/$disk$n.qcow2"
    done
  done
  top=0
}
job() { qmp "$d/vm.user" query-jobs | jq -r ".[] | select(.id == \"$1\").status"; }
job_ready() { [[ $(job "$1") = ready ]]; }
job_gone() { [[ -z $(job "$1") ]]; }

start_guest
guest=$started
wait_for 30 guest_wrote 20
synced
expect_kind full
synced
reason 'its bitmap tells'

# Between syncs.
snapshot
nbdsync disks "qmp:$d/vm.qmp" | tee "$d/disks"
(($(grep -A1 '^  on [ab] ' "$d/disks" |
      grep -Ec 'bitmap nbdsync-.* \(chain .{8}, since generation 2\): ') == 2)) ||
  die "disks does not show the bitmaps below"
[[ $(nbdsync sync --dry-run --json "qmp:$d/vm.qmp" "$d/replica" |
       jq -c '[.disks[].kind]') = '["incremental","incremental"]' ]] ||
  die "the dry run does not see it"
synced
reason 'a snapshot was taken'
synced
reason 'its bitmap tells'

# It is committed: the bitmap that comes up again is of an older generation.
commit
synced
reason 'of an older generation'
synced --scratch-limit 0
reason 'its bitmap tells'

# Two at once, a sync, a third one, and all of them committed.
snapshot
snapshot
synced
reason 'a snapshot was taken'
snapshot
commit
synced
reason 'of an older generation'

# During a sync, before its instant: the pass has read what was planned.
more_rounds
sync_stopping_at precopy-state-read --scratch-limit 0 "qmp:$d/vm.qmp" \
  "$d/replica"
snapshot
signal_sync CONT
! wait "$sync" || die "a sync over a snapshot succeeded"
cat "$d/stopped.err"
grep -q ': run again$' "$d/stopped.err" ||
  die "it does not say what to do"
synced
reason 'a snapshot was taken'

# The same after the instant: that sync is as good as any.
more_rounds
sync_stopping_at spool-taken "qmp:$d/vm.qmp" "$d/replica"
snapshot
signal_sync CONT
wait "$sync" || die "the sync failed: $(cat "$d/stopped.err")"
g=$(printf '%s/generations/%06d' "$d/replica" \
      "$(jq .generation "$d/stopped.json")")
images+=("$g/vda.qcow2" "$g/vdb.qcow2")
synced
reason 'a snapshot was taken'
commit
synced
reason 'of an older generation'
synced
reason 'its bitmap tells'

[[ $(qmp "$d/vm.qmp" query-named-block-nodes |
       jq '[.[]."dirty-bitmaps"[]? | select(.name)] | length') = 2 ]] ||
  die "not one bitmap for each disk: $(source_state "$d/vm.qmp")"
read -r errors _ < <(guest_report)
((errors == 0)) || die "the guest saw errors"
kill -9 "$guest"
wait "$guest" || true
"$srcdir/tests/guest/replay.py" "${images[@]}" ||
  die "a generation is not one instant of the guest"
