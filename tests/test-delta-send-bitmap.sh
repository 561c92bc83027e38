# SPDX-License-Identifier: BSD-3-Clause
# An increment by a dirty bitmap of a storage daemon: exactly what was
# written since is sent, and the old copy with it is the new disk.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

qemu-img create -q -f qcow2 "$d/disk.qcow2" 64M
qemu-io -c 'write -P 1 0 20M' -c 'write -P 2 40M 8M' "$d/disk.qcow2" >/dev/null
qemu-img convert -f qcow2 -O raw "$d/disk.qcow2" "$d/out"

start_qsd q --nbd-server "addr.type=unix,addr.path=$d/q.nbd" \
  --blockdev "file,node-name=f,filename=$d/disk.qcow2" \
  --blockdev qcow2,node-name=a,file=f,discard=unmap \
  --export nbd,id=w,node-name=a,name=w,writable=on
qmp "$d/q.qmp" block-dirty-bitmap-add \
  '{"node": "a", "name": "b0", "granularity": 4096}' >/dev/null
# The map is of an export of its own: one made before does not have it.
qmp "$d/q.qmp" block-export-add '{"type": "nbd", "id": "e", "node-name": "a",
  "name": "e", "bitmaps": [{"node": "a", "name": "b0"}]}' >/dev/null
increment "$d/session"
# shared=yes: the plugin connects once, as the filter does.
send=(nbd shared=yes "socket=$d/q.nbd" export=e delta-bitmap=b0 "delta-session=$d/session")

# Nothing is dirty: the record alone.
dump "$d/wire" "${send[@]}" "delta-stats=$d/stats"
apply "$d/wire" "$d/out"
[[ $(jq .frames "$d/record") = 0 && $(stat -c %s "$d/wire") = 134217728 ]]

w="nbd+unix:///w?socket=$d/q.nbd"
qemu-io -f raw -c 'write -P 7 4k 4k' -c 'write -P 8 1M 1M' \
  -c 'write -P 9 63M 512' -c 'write -z 41M 1M' -c 'discard 42M 64k' "$w" \
  >/dev/null
qmp "$d/q.qmp" query-named-block-nodes >"$d/nodes"
dump "$d/wire" "${send[@]}" "delta-qmp=$d/q.qmp" delta-node=a
apply "$d/wire" "$d/out"
qemu-img compare -f raw -F raw "$d/out" "$w"
extents "$d/wire" >"$d/extents"
diff "$d/extents" - <<'END'
4096 4096 data
1048576 1048576 data
42991616 1114112 zero
66060288 4096 data
END
[[ $(jq .granularity "$d/record") = 4096 ]]

# By URI, and with a map from elsewhere than the data: the same bytes.
for how in "uri=nbd+unix:///e?socket=$d/q.nbd" \
           "socket=$d/q.nbd export=w delta-map-uri=nbd+unix:///e?socket=$d/q.nbd"
do
  # shellcheck disable=SC2086
  dump "$d/wire2" nbd $how delta-bitmap=b0 "delta-session=$d/session"
  extents "$d/wire2" | cmp - "$d/extents"
done
