# SPDX-License-Identifier: BSD-3-Clause
# What all tests share; source it first.  It makes a directory of the test's
# own, $d, removed at the end with everything that was started.
set -euo pipefail

: "${srcdir:=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}"
: "${builddir:=$srcdir}"
export srcdir builddir LC_ALL=C

d=$(mktemp -d "${TMPDIR:-/tmp}/nbdsync-test.XXXXXX")
cleanup_fns=()
test_pids=()

# Run FN ARGS... when the test ends, last registered first.
cleanup_fn() { cleanup_fns=("$(printf '%q ' "$@")" "${cleanup_fns[@]}"); }

run_cleanup() {
  local rc=$? fn pid
  trap - EXIT
  set +e
  for fn in "${cleanup_fns[@]}"; do eval "$fn"; done
  for pid in "${test_pids[@]}"; do kill "$pid" 2>/dev/null; done
  for pid in "${test_pids[@]}"; do
    for ((i = 0; i < 100; i++)); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.05
    done
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
  done
  if ((rc != 0 && rc != 77)); then
    echo "FAILED with $rc; what the test left in $d:"
    ls -lR "$d" | head -50
  fi
  umount -R "$d"/mnt* 2>/dev/null
  rm -rf "$d"
  exit "$rc"
}
trap run_cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

die() { echo "FAIL: $*" >&2; exit 1; }

# Skip the test unless the command succeeds; say why, for a user's machine.
requires() {
  if ! "$@" >/dev/null 2>&1; then
    echo "SKIP: this needs: $*"
    exit 77
  fi
}

# wait_for SECONDS CMD...: poll until CMD succeeds; die at the deadline.
wait_for() {
  local seconds=$1 end
  shift
  end=$((SECONDS + seconds))
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || die "not within $seconds s: $*"
    sleep 0.05
  done
}

# Start a command in the background; its pid is in $started and it is ended
# with the test.
start() {
  "$@" &
  started=$!
  test_pids+=("$started")
}

# fails RC TEXT CMD...: CMD exits with RC and says TEXT (a grep -E pattern)
# on standard error.
fails() {
  local want=$1 text=$2 rc=0
  shift 2
  "$@" 2>"$d/stderr" || rc=$?
  cat "$d/stderr" >&2
  [[ $rc = "$want" ]] || die "exit $rc, not $want: $*"
  grep -Eq -- "$text" "$d/stderr" || die "no '$text' on stderr of: $*"
}

# qmp SOCKET COMMAND [ARGUMENTS]: one QMP command; prints "return", or fails
# with QEMU's error on stderr.
qmp() { python3 "$srcdir/tests/qmp.py" "$@"; }

# start_qsd NAME [ARGS...]: a storage daemon with its monitor at $d/NAME.qmp
# (and no NBD server, unless ARGS say so).  Sets $started.
start_qsd() {
  local name=$1
  shift
  start qemu-storage-daemon \
    --chardev "socket,id=m,path=$d/$name.qmp,server=on,wait=off" \
    --monitor chardev=m "$@"
  wait_for 10 qmp "$d/$name.qmp" query-version
}

# Are two images the same disk, in content and size?
same_disk() {
  qemu-img compare -s -U "$1" "$2" || die "$1 and $2 differ"
}
