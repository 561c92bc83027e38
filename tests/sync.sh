# SPDX-License-Identifier: BSD-3-Clause
# What the end-to-end tests share; sourced by them.
. "$(dirname "${BASH_SOURCE[0]}")/functions.sh"

# do_sync ARGS...: nbdsync sync; its JSON is in $d/result.json.
do_sync() {
  nbdsync sync --json "$@" >"$d/result.json" || {
    cat "$d/result.json" >&2
    die "nbdsync sync $* failed"
  }
}

# result FILTER: of the last sync (a jq filter; null is an empty line).
result() { jq -r "($1) // empty" "$d/result.json"; }

# Every disk of the last sync was of this kind.
expect_kind() {
  [[ $(result '[.disks[].kind] | unique | join(" ")') = "$1" ]] ||
    die "not $1: $(jq -c '.disks[] | [.name, .kind, .reason]' \
                     "$d/result.json")"
}

# generation_dir DIR: of the generation that the last sync made.
generation_dir() {
  printf '%s/generations/%06d' "$1" "$(result .generation)"
}

# source_daemon NAME DISK...: a storage daemon with a monitor for nbdsync,
# $d/NAME.qmp, and one for its user, $d/NAME.user, that serves $d/DISK.qcow2
# at the node and export DISK of $d/NAME.nbd.  Sets $started.
source_daemon() {
  local name=$1 disk args=()
  shift
  for disk; do
    args+=(
      --blockdev "qcow2,node-name=$disk,discard=unmap,file.driver=file,file.filename=$d/$disk.qcow2"
      --export "nbd,id=e-$disk,node-name=$disk,name=$disk,writable=on")
  done
  start_qsd "$name" --nbd-server "addr.type=unix,addr.path=$d/$name.nbd" \
    --chardev "socket,id=user,path=$d/$name.user,server=on,wait=off" \
    --monitor chardev=user "${args[@]}"
}

# The URI of a disk of source_daemon.
disk_uri() { echo "nbd+unix:///$2?socket=$d/$1.nbd"; }

# disk_io NAME DISK COMMAND...: qemu-io commands, as a guest's writes.
disk_io() {
  local uri command args=()
  uri=$(disk_uri "$1" "$2")
  shift 2
  for command; do args+=(-c "$command"); done
  qemu-io -f raw "${args[@]}" "$uri" >"$d/qemu-io.out" || {
    cat "$d/qemu-io.out"
    die "qemu-io $uri"
  }
}

# End a process that was started, as it is meant to be ended.
stop() {
  kill "$1" 2>/dev/null || true
  wait "$1" || true
}

# What is left in a source's QEMU that was not there before: bitmaps, jobs
# and nodes, one a line, numbers left out.
source_state() {
  {
    qmp "$1" query-named-block-nodes |
      jq -r '.[] | "node \(."node-name")",
                   (."dirty-bitmaps"[]? | "bitmap \(.name)")'
    qmp "$1" query-jobs | jq -r '.[] | "job \(.id)"'
    qmp "$1" query-block-exports | jq -r '.[] | "export \(.id)"'
  } | grep -v 'node #block' | sort
}

# start_sshd: a private sshd on loopback, reached with --rsh "$rsh" as the
# host "there"; what it runs has our PATH, and NBDSYNC_TEST_SIDE=$d.
start_sshd() {
  local port
  requires command -v /usr/sbin/sshd
  requires command -v ssh-keygen
  ssh-keygen -q -t ed25519 -N '' -f "$d/host_key"
  ssh-keygen -q -t ed25519 -N '' -f "$d/user_key"
  mkdir -p /run/sshd
  # Some other port if that one is taken; sshd says so only by ending.
  for ((port = 20000 + $$ % 20000; ; port++)); do
    cat >"$d/sshd_config" <<END
Port $port
ListenAddress 127.0.0.1
HostKey $d/host_key
AuthorizedKeysFile $d/user_key.pub
PidFile $d/sshd.pid
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
AcceptEnv NBDSYNC_FAULT NBDSYNC_FAULT_LOG
SetEnv PATH=$PATH TMPDIR=${TMPDIR:-/tmp} NBDSYNC_TEST_SIDE=$d
END
    cat >"$d/ssh_config" <<END
Host there
  HostName 127.0.0.1
  Port $port
  User $(id -un)
  IdentityFile $d/user_key
  IdentitiesOnly yes
  StrictHostKeyChecking accept-new
  UserKnownHostsFile $d/known_hosts
  LogLevel ERROR
  SendEnv NBDSYNC_FAULT NBDSYNC_FAULT_LOG
  ServerAliveInterval 2
END
    rsh="ssh -F $d/ssh_config"
    start /usr/sbin/sshd -D -e -f "$d/sshd_config" 2>"$d/sshd.log"
    wait_for 10 sshd_answers "$started"
    kill -0 "$started" 2>/dev/null && return
  done
}

# It serves, or has ended.
sshd_answers() { [[ -s $d/sshd.pid ]] || ! kill -0 "$1"; }

# Processes that a sync of this test has started and that still live: their
# pid and name, one a line.  The test itself must export NBDSYNC_TEST_SYNC=$d
# for the sync only; what it runs through ssh has NBDSYNC_TEST_SIDE=$d.
sync_processes() {
  local p
  for p in $(grep -lzsxF -e "NBDSYNC_TEST_SYNC=$d" \
               -e "NBDSYNC_TEST_SIDE=$d" /proc/[0-9]*/environ); do
    p=${p#/proc/}
    p=${p%/environ}
    echo "$p $(cat "/proc/$p/comm" 2>/dev/null)"
  done
}
nothing_runs() { [[ -z $(sync_processes) ]]; }

# sync_process PATTERN: the pids of those with such a command line.
sync_process() {
  local p
  for p in $(sync_processes | cut -d' ' -f1); do
    if tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline" | grep -Eq -- "$1"; then
      echo "$p"
    fi
  done
}

# signal_sync SIGNAL: to all of them, those included that they start while
# we look.
signal_sync() {
  local seen=- now
  while now=$(sync_processes) && [[ $now != "$seen" ]]; do
    kill -s "$1" $(cut -d' ' -f1 <<<"$now") 2>/dev/null || true
    seen=$now
  done
}

# sync_stopping_at POINT OPTION... SOURCE REPLICA: a sync in the background,
# of which the process that gets to this point (common/fault.h) has stopped
# itself.  Sets $sync; its JSON is in $d/stopped.json.
sync_stopping_at() {
  local point=$1
  shift
  rm -f "$d/fault"
  NBDSYNC_TEST_SYNC=$d NBDSYNC_FAULT=$point NBDSYNC_FAULT_LOG=$d/fault \
    nbdsync sync --json "$@" >"$d/stopped.json" 2>"$d/stopped.err" &
  sync=$!
  wait_for 60 stopped_or_ended "$sync"
  grep -q "^stopped ${point%:*} " "$d/fault" ||
    die "the sync did not get to $point: $(cat "$d/stopped.err")"
}
stopped_or_ended() { grep -q ^stopped "$d/fault" || ! kill -0 "$1"; }

# same_content A B: of one size and content, whatever is allocated.  The
# images may be open elsewhere.
same_content() {
  local sizes
  sizes=$(for i; do qemu-img info -U --output=json "$i" |
            jq '."virtual-size"'; done | sort -u | wc -l)
  [[ $sizes = 1 ]] || die "$1 and $2 are not of one size"
  qemu-img compare -q -U "$1" "$2" || die "$1 and $2 differ"
}
