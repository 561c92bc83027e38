#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# To another host over ssh: full, increment, status.  Killed in the middle,
# be it the connection or the command, nothing is left running on either
# side, the replica is as before, QEMU has no job, node or export of ours;
# and the next sync is right.
. "$(dirname "$0")/sync.sh"

start_sshd
TARGET=there:$d/replica
SOURCE=qmp:$d/src.qmp

qemu-img create -q -f qcow2 "$d/disk.qcow2" 128M
source_daemon src disk
daemon=$started
disk_io src disk "write -P 1 0 4M" "write -P 2 100M 1M"

do_sync --rsh "$rsh" "$SOURCE" "$TARGET"
expect_kind full
disk_io src disk "write -P 3 1M 64k" "discard 100M 512k"
do_sync --rsh "$rsh" "$SOURCE" "$TARGET"
expect_kind incremental
generation=$(result .generation)
[[ $(nbdsync status --json --rsh "$rsh" "$TARGET" | jq .generation) = \
   "$generation" ]] || die "status does not say generation $generation"
same_content "$d/disk.qcow2" "$d/replica/current/disk.qcow2"

# Something to send that takes a while at this rate.
shopt -s nullglob
staged() {
  local images=("$d"/replica/generations/incoming/*.qcow2)
  ((${#images[@]} && $(stat -c %s "${images[0]}") > 1 << 20))
}
ssh_of() {
  local pid
  for pid in $(cat "/proc/$1"/task/*/children); do
    [[ $(cat "/proc/$pid/comm") != ssh ]] || echo "$pid"
  done
}
without_bitmaps() { source_state "$d/src.qmp" | grep -v '^bitmap'; }
before=$(without_bitmaps)
current=$(readlink "$d/replica/current")

for victim in ssh nbdsync; do
  qemu-io -f raw -c "write -q -s $(command -v qemu-system-x86_64) 8M 8M" \
    "$(disk_uri src disk)" ||
    die "cannot write"
  NBDSYNC_TEST_SYNC=$d start nbdsync sync --json --rate 8M --level 1 \
    --rsh "$rsh" "$SOURCE" "$TARGET" >"$d/cut.json" 2>"$d/cut.log"
  sync=$started
  wait_for 30 staged
  case $victim in
    ssh) kill -9 $(ssh_of "$sync") ;;
    nbdsync) kill -9 "$sync" ;;
  esac
  ! wait "$sync" || die "a sync whose $victim was killed succeeded"
  cat "$d/cut.log"
  wait_for 15 nothing_runs
  [[ $(without_bitmaps) = "$before" ]] ||
    die "left in QEMU: $(without_bitmaps)"
  [[ $(readlink "$d/replica/current") = "$current" ]] ||
    die "the replica is not as before"
  if [[ $victim = ssh ]]; then
    [[ $(wc -l <"$d/cut.log") = 1 ]] || die "not one line of error"
    [[ $(jq -r .result "$d/cut.json") = failed ]] || die "no JSON of it"
  fi
done

do_sync --rsh "$rsh" "$SOURCE" "$TARGET"
expect_kind incremental
stop "$daemon"
same_content "$d/disk.qcow2" "$d/replica/current/disk.qcow2"
