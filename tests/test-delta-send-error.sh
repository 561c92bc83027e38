# SPDX-License-Identifier: BSD-3-Clause
# The disk cannot be read at one place: whoever asks for that frame gets the
# error, each time, with one message that names the place; the others can be
# read.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

cat >"$d/pread" <<'END'
# offset $4, count $3
if [ "$4" -le 10000000 ] && [ $(($4 + $3)) -gt 10000000 ]; then
  echo ENOSPC no such sector >&2
  exit 1
fi
dd if=/dev/urandom bs=64K count=$(($3 / 65536)) status=none
dd if=/dev/urandom bs=1 count=$(($3 % 65536)) status=none
END
# One thread per connection: nbdkit 1.32 aborts when a client goes with
# replies under way, filter or not.
serve error -t 1 eval get_size='echo 32M' thread_model='echo parallel' \
  pread="sh $d/pread "'"$@"' delta-batch=1M delta-threads=2 2>"$d/log"
uri=$(uri_of error)

for i in 1 2; do
  rc=0
  nbdcopy --synchronous --connections=1 "$uri" "$d/wire" 2>"$d/stderr" || rc=$?
  cat "$d/stderr"
  [[ $rc = 1 ]]
  grep -q 'No space left' "$d/stderr"
done
# Once in the log, with the offset of the read: 9 or 10 MiB, not more.
[[ $(grep -c 'reading the disk at' "$d/log") = 1 ]]
grep -q 'reading the disk at 9437184, 1048576 bytes: No space' "$d/log"

# Other frames are still there: the last of 32, at slot 32.
python3 - "$d/error.sock" <<'END'
import socket, struct, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
f = s.makefile('rwb')
f.read(18); f.write(struct.pack('>I', 3)); f.flush()
f.write(b'IHAVEOPT' + struct.pack('>II', 1, 0)); f.flush()
f.read(10)
f.write(struct.pack('>IHHQQI', 0x25609513, 0, 0, 1, 32 << 27, 8)); f.flush()
reply = f.read(16)
assert struct.unpack('>I', reply[4:8])[0] == 0, reply
assert f.read(8) == b'NBDSYNC1'
END
