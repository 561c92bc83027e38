#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Whatever is wrong with what nbdsync sync is given or finds: one clear
# line, an exit status that is not 0, the replica untouched and QEMU as it
# was before.
. "$(dirname "$0")/sync.sh"

cd "$d"
qemu-img create -q -f qcow2 disk.qcow2 64M
source_daemon src disk
daemon=$started
disk_io src disk "write -P 1 0 1M"
do_sync "qmp:$d/src.qmp" "$d/replica"

# All but the numbers that were given: those are used once, whatever happens.
replica_state() { (cd "$d/replica" && find . -type f -o -type l | sort |
  grep -v -e '^./lock$' -e '^./generations/last.json$' | xargs sha256sum -- 2>/dev/null; readlink current); }
before_source=$(source_state src.qmp)
before_replica=$(replica_state)
disk_io src disk "write -P 2 2M 64k"

# refused TEXT CMD...: as the head of this file says; TEXT is a pattern for
# the line.
refused() {
  local text=$1 rc=0
  shift
  timeout 60 "$@" >"$d/out" 2>"$d/err" || rc=$?
  cat "$d/err"
  ((rc != 0 && rc != 124)) || die "exit $rc: $*"
  [[ $(wc -l <"$d/err") = 1 ]] || die "not one line: $*"
  grep -Eq -- "$text" "$d/err" || die "it does not say '$text': $*"
  [[ $(replica_state) = "$before_replica" ]] || die "the replica changed: $*"
  [[ $(source_state src.qmp) = "$before_source" ]] ||
    die "QEMU is not as before: $(source_state src.qmp)"
}

# Sources.
refused 'nosuch' nbdsync sync "qmp:$d/nosuch" "$d/replica"
refused 'src.nbd' nbdsync sync "qmp:$d/src.nbd" "$d/replica"
start python3 -c '
import signal, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
signal.pause()' "$d/silent"
wait_for 10 test -S silent
refused 'silent' nbdsync sync "qmp:$d/silent" "$d/replica"
refused 'nodisk' nbdsync sync "qmp:$d/src.qmp,disk=nodisk" "$d/replica"
refused 'nofile' nbdsync sync "image:$d/nofile.qcow2" "$d/replica"
refused 'disk.qcow2' nbdsync sync "image:$d/disk.qcow2" "$d/replica"
refused 'not a source' nbdsync sync disk.qcow2 "$d/replica"

# Targets.
mkdir mnt
mount -t tmpfs -o ro tmpfs mnt 2>/dev/null && {
  refused 'mnt' nbdsync sync "qmp:$d/src.qmp" "$d/mnt"
  refused 'mnt' nbdsync sync "qmp:$d/src.qmp" "$d/mnt/replica"
  umount mnt
}
echo >file
refused 'file' nbdsync sync "qmp:$d/src.qmp" "$d/file"
refused 'none' nbdsync sync "qmp:$d/src.qmp" "$d/none/none"
refused 'no directory' nbdsync sync "qmp:$d/src.qmp" "host:"

# The other host's nbdsync is older, newer, missing, or something else.
other() {
  printf '#!/bin/sh\n%s\n' "$1" >"$d/rsh"
  chmod +x "$d/rsh"
}
ours=$(nbdsync --version | cut -d' ' -f2)
hello='{"nbdsync": "receive", "version": "%s", "protocol": %d, "format": %d}'
# shellcheck disable=SC2059
for v in "0.0.1 0 1" "99.0 7 1" "99.1 1 9"; do
  other "echo '$(printf "$hello" $v)'; cat >/dev/null"
  refused "upgrade" nbdsync sync -e "$d/rsh" "qmp:$d/src.qmp" host:/replica
  for word in "$ours" "${v%% *}" host; do
    grep -Fq "$word" err || die "$word is not named"
  done
done
other 'exit 127' # as a shell that has no nbdsync
refused 'nbdsync' nbdsync sync -e "$d/rsh" "qmp:$d/src.qmp" host:/replica
other 'echo "Welcome to host"; cat >/dev/null'
refused 'host' nbdsync sync -e "$d/rsh" "qmp:$d/src.qmp" host:/replica

# Programs that are missing.
path_without() {
  rm -rf "$d/bin"
  mkdir "$d/bin"
  ln -sf /usr/sbin/* /usr/bin/* "$d/bin/"
  ln -sf "$builddir/run.d/nbdkit" "$d/bin/nbdkit"
  rm "$d/bin/$1"
}
for p in nbdkit nbdcopy qemu-storage-daemon; do
  path_without "$p"
  refused "$p" env PATH="$d/bin" "$(command -v nbdsync)" sync \
    "qmp:$d/src.qmp" "$d/replica"
done

# After all this the next sync is an increment and right.
do_sync "qmp:$d/src.qmp" "$d/replica"
expect_kind incremental
stop "$daemon"
same_content disk.qcow2 replica/current/disk.qcow2
