# SPDX-License-Identifier: BSD-3-Clause
# What the tests of delta-recv share; sourced by them.
source "$srcdir/tests/functions.sh"

# client DISK COMMAND...: see test-delta-recv-client.c.
client() {
  local disk=$1
  shift
  "$builddir/tests/test-delta-recv-client" "$(uri "$disk")" "$@"
}

# same RAW IMAGE: the same content and size; the image may be sparser.
same() {
  [[ $(stat -L -c %s "$1") = $(qemu-img info -U --output=json "$2" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["virtual-size"])')
  ]] || die "$1 and $2 differ in size"
  qemu-img compare -U -f raw "$1" "$2" || die "$1 and $2 differ"
}

wire() { "$builddir/tests/wire-make" "$@"; }

# start_recv ARGS...: a receiver on $d/recv.sock, its messages in
# $d/recv.log, its pid in $recv.  nbdkit < 1.34 may abort when a client goes
# with replies pending, as nbdcopy does after an error; not with -t 1.
start_recv() {
  rm -f "$d/recv.sock" "$d/recv.pid"
  start nbdkit -f -P "$d/recv.pid" -U "$d/recv.sock" -t "${threads:-16}" \
    delta-recv "$@" 2>>"$d/recv.log"
  recv=$started
  wait_for 10 test -s "$d/recv.pid"
}

stop_recv() {
  kill "$recv"
  wait "$recv" || true
}

# uri [DISK]: of that export of the receiver.
uri() { echo "nbd+unix:///${1-}?socket=$d/recv.sock"; }

# send WIRE [DISK]: a whole stream, committed.
send() { nbdcopy --flush "$1" "$(uri "${2-}")"; }

# refused WIRE DISK TEXT: the stream is refused, with one line that says so.
refused() {
  : >"$d/recv.log"
  if send "$1" "$2" 2>"$d/stderr"; then
    die "accepted, but should not: $3"
  fi
  grep -Eq -- "$3" "$d/recv.log" || {
    cat "$d/recv.log"
    die "no message '$3'"
  }
  # nbdkit's own lines, about the client that went, may be on their way.
  [[ $(grep 'error: .' "$d/recv.log" |
    grep -cvE 'read request|write reply|read data|write data') = 1 ]] || {
    cat "$d/recv.log"
    die "not one line for '$3'"
  }
}

# random_at FILE OFFSET BYTES: overwrite with random data.
random_at() {
  head -c "$3" /dev/urandom |
    dd of="$1" bs=64K seek="$2" oflag=seek_bytes conv=notrunc status=none
}

field() { python3 -c 'import json,sys
v = json.load(open(sys.argv[1]))
for k in sys.argv[2].split("."): v = v[k]
print(v)' "$1" "$2"; }
