# SPDX-License-Identifier: BSD-3-Clause
# delta-qmp: a bitmap that cannot be believed is refused before anything is
# served: not on the node itself, disabled, inconsistent, another one.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

increment "$d/session"
qemu-img create -q -f qcow2 "$d/disk.qcow2" $((1048576 + 512))
qemu-img bitmap --add -g 64K "$d/disk.qcow2" torn
storage() {
  rm -f "$d/q.qmp" "$d/q.nbd"
  start_qsd q --nbd-server "addr.type=unix,addr.path=$d/q.nbd" \
    --blockdev "file,node-name=f,filename=$d/disk.qcow2" \
    --blockdev qcow2,node-name=a,file=f
}
q() { qmp "$d/q.qmp" "$@" >/dev/null; }
send=(nbd "socket=$d/q.nbd" export=e "delta-session=$d/session"
      "delta-qmp=$d/q.qmp")

# Killed, so that the persistent bitmap is in use for ever.
storage
kill -9 "$started"
wait "$started" || true
storage

q block-dirty-bitmap-add '{"node": "a", "name": "b", "granularity": 65536}'
q block-dirty-bitmap-add '{"node": "a", "name": "c", "granularity": 65536}'
q block-export-add '{"type": "nbd", "id": "w", "node-name": "a", "name": "w",
  "writable": true}'
# The last sector is a granule of its own, mostly beyond the end.
qemu-io -f raw -c 'write -P 1 0 512' -c 'write -P 1 1M 512' \
  "nbd+unix:///w?socket=$d/q.nbd" >/dev/null
q block-export-add '{"type": "nbd", "id": "e", "node-name": "a", "name": "e",
  "bitmaps": [{"node": "a", "name": "b"}]}'

dump "$d/wire" "${send[@]}" delta-bitmap=b delta-node=a
diff <(extents "$d/wire" | awk '{ print $1, $2 }') - <<'END'
0 4096
4096 61440
1048576 512
END
dump "$d/wire" "${send[@]}" delta-bitmap=b delta-node=a delta-local=yes \
  2>"$d/stderr" && die 'allocation depth was not exported'
grep -q 'no context qemu:allocation-depth' "$d/stderr"

refuses 'node "a" has no bitmap "x"' "${send[@]}" delta-bitmap=x delta-node=a
refuses 'no node "z"' "${send[@]}" delta-bitmap=b delta-node=z
refuses 'bitmap "b" is not on node "f" itself but on "a"' "${send[@]}" \
  delta-bitmap=b delta-node=f
refuses 'bitmap "torn" on node "a" is inconsistent' "${send[@]}" \
  delta-bitmap=torn delta-node=a
refuses 'q.nbd' "${send[@]}" delta-bitmap=b delta-node=a \
  "delta-qmp=$d/q.nbd"

# Disabled bitmap "c": exported or not, it is not believed.
q block-dirty-bitmap-disable '{"node": "a", "name": "c"}'
refuses 'bitmap "c" on node "a" is disabled' "${send[@]}" delta-bitmap=c \
  delta-node=a

# The export is of another node that has a bitmap of the same name.
qemu-img create -q -f qcow2 "$d/twin.qcow2" $((1048576 + 512))
q blockdev-add "{\"driver\": \"qcow2\", \"node-name\": \"t\",
  \"file\": {\"driver\": \"file\", \"filename\": \"$d/twin.qcow2\"}}"
q block-dirty-bitmap-add '{"node": "t", "name": "b", "granularity": 65536}'
refuses 'bitmap "b": 0 bytes are dirty in QEMU but 66048 over NBD|bitmap "b": 0 bytes are dirty in QEMU but 131072' \
  "${send[@]}" delta-bitmap=b delta-node=t
