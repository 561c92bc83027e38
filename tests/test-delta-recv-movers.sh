#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Whatever moves the stream, and however it cuts it, the replica is right.
source "$srcdir/tests/test-delta-recv-functions.sh"

# Much of it compresses, some does not; zero runs inside of frames.
truncate -s 40M "$d/disk"
random_at "$d/disk" $((1 << 20)) $((9 << 20))
seq 1 1000000 | dd of="$d/disk" bs=1M seek=20 conv=notrunc status=none
wire --batch 2097152 "$d/disk" "$d/packed"
wire --batch 2097152 --stored --keep-zeroes "$d/disk" "$d/stored"

check() {
  same "$d/disk" "$d/t.qcow2"
  rm "$d/t.qcow2" "$d/t.qcow2.nbdsync.json"
}

for wire in packed stored; do
  for args in "--connections=1" "--connections=4" "--request-size=65536" \
              "--request-size=262144" "--request-size=4194304" \
              "--synchronous" "--destination-is-zero" "-S 0" "--allocated" \
              "--connections=4 --destination-is-zero --request-size=4096"; do
    start_recv target="$d/t.qcow2" buffer=8M
    # shellcheck disable=SC2086
    nbdcopy --flush $args "$d/$wire" "$(uri)"
    stop_recv
    check
  done
  nbdcopy --flush "$d/$wire" -- [ nbdkit -f delta-recv target="$d/t.qcow2" ]
  check
  nbdkit -U - delta-recv target="$d/t.qcow2" \
    --run "qemu-img convert -n -f raw -O raw '$d/$wire' \"\$uri\""
  check
done
