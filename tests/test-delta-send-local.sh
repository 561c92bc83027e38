# SPDX-License-Identifier: BSD-3-Clause
# delta-local: what the top image holds itself; with a bitmap, what is dirty
# and local.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

qemu-img create -q -f qcow2 "$d/base.qcow2" 16M
qemu-io -c 'write -P 1 0 16M' "$d/base.qcow2" >/dev/null
qemu-img create -q -f qcow2 -b base.qcow2 -F qcow2 "$d/top.qcow2"
qemu-img bitmap --add -g 4096 "$d/top.qcow2" b0
qemu-io -c 'write -P 2 1M 64k' -c 'write -z 2M 64k' -c 'write -P 3 5M 4k' \
  "$d/top.qcow2" >/dev/null
qemu-img bitmap --clear "$d/top.qcow2" b0
qemu-io -c 'write -P 4 1M 4k' -c 'write -P 5 8M 4k' "$d/top.qcow2" >/dev/null

start qemu-nbd -r -A -B b0 -e 10 -t -k "$d/sock" -f qcow2 "$d/top.qcow2"
wait_for 10 test -S "$d/sock"
increment "$d/session"
send=(nbd "socket=$d/sock" "delta-session=$d/session")

# Local by itself: whole clusters.
dump "$d/wire" "${send[@]}" delta-local=yes
diff <(extents "$d/wire") - <<'END'
1048576 65536 data
2097152 65536 zero
5242880 65536 data
8388608 65536 data
END
qemu-img convert -O raw "$d/base.qcow2" "$d/out"
apply "$d/wire" "$d/out"
qemu-img compare -f raw -F raw "$d/out" "nbd+unix:///?socket=$d/sock"

# Dirty and local.
dump "$d/wire" "${send[@]}" delta-local=yes delta-bitmap=b0
diff <(extents "$d/wire") - <<'END'
1048576 4096 data
8388608 4096 data
END

# A server without the context is not taken for "all local".
start qemu-nbd -r -e 10 -t -k "$d/sock2" -f qcow2 "$d/top.qcow2"
wait_for 10 test -S "$d/sock2"
refuses 'no context qemu:allocation-depth' nbd "socket=$d/sock2" \
  "delta-session=$d/session" delta-local=yes
