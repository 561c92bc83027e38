#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The QMP connection against monitors that behave badly: what can be
# understood is, the rest is refused in one line, and nothing hangs.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
tool=$builddir/tests/qmp-tool

serve() {
  rm -f "$d/s"
  start python3 "$srcdir/tests/test-qmp-server.py" "$d/s" "$1"
  wait_for 10 test -S "$d/s"
}

# good HOW COMMAND...: they are answered.
good() {
  serve "$1"
  shift
  timeout 30 "$tool" execute "$d/s" "$@" >"$d/out"
  for c in "$@"; do echo "{\"name\":\"$c\"}"; done | cmp - "$d/out"
}

# bad HOW ERRNO TEXT: one line, about the socket, with the text.
bad() {
  serve "$1"
  fails 1 "$d/s: .*$3" timeout 30 "$tool" execute "$d/s" one two >"$d/out"
  [[ $(cat "$d/out") = "$2" ]] || die "$1: $(cat "$d/out"), not $2"
  [[ $(wc -l <"$d/stderr") = 1 ]] || die "$1: not one line"
}

export QMP_TOOL_TIMEOUT_MS=10000
good Server one two three
good Bytewise one two
good Burst one two
good Pretty one two

bad Oversized EBADMSG 'one|more than 16 MiB'
bad Endless EBADMSG 'more than 16 MiB'
bad Malformed EBADMSG 'malformed'
bad Duplicates EBADMSG 'malformed'
bad NoResult EBADMSG 'without return or error'
bad WrongId EBADMSG 'one: a reply that is not to this command'
bad NoId EBADMSG 'one: a reply that is not to this command'
bad Refusal EREMOTEIO 'one: I will not$'
bad Eof EPIPE 'closed the monitor'
bad HalfLine EPIPE 'closed the monitor'
bad Ssh EBADMSG 'this is no QMP socket'
bad Nbd EBADMSG 'this is no QMP socket'
bad OtherJson EBADMSG 'this is no QMP socket'
bad EarlyEof EPIPE 'this is no QMP socket'
QMP_TOOL_TIMEOUT_MS=1000
bad NoGreeting EBUSY 'somebody else uses this monitor \(no greeting within 1 s\)'

for how in Silent EventsOnly; do
  serve $how
  fails 1 "$d/s: one: no reply within 1 s" \
    timeout 30 "$tool" try "$d/s" 1000 one
done

# An event that came before it is waited for is there; one that does not
# come is not waited for without end.
serve Burst
[[ -z $(timeout 30 "$tool" event "$d/s" LAST 5000 one) ]]
serve Burst
[[ $(timeout 30 "$tool" event "$d/s" OTHER 300 one) = ETIMEDOUT ]]

fails 1 "$d/none: cannot connect: No such file" "$tool" execute "$d/none" x
fails 1 "$d/s: nobody listens" "$tool" execute "$d/s" x
fails 1 "longer than a socket's path" "$tool" execute \
  "$d/$(printf '%0100d' 0)" x
fails 1 "tcp:localhost: not tcp:HOST:PORT" "$tool" execute tcp:localhost x
fails 1 "tcp:127.0.0.1:1: cannot connect: Connection refused" \
  "$tool" execute tcp:127.0.0.1:1 x

# A real monitor; over TCP; and while somebody else uses it.
start qemu-storage-daemon \
  --chardev "socket,id=m,path=$d/q,server=on,wait=off" --monitor chardev=m
wait_for 10 test -S "$d/q"
"$tool" execute "$d/q" query-version | grep '"major"' >/dev/null
start python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.recv(1)
open(sys.argv[1] + ".used", "w")
time.sleep(60)' "$d/q"
wait_for 10 test -e "$d/q.used"
fails 1 "$d/q: somebody else uses this monitor" "$tool" execute "$d/q" x
