#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Memory does not grow with the disk: from end to end, a disk of 64 GiB with
# 1 GiB of data that does not compress, buffers of 64 MiB, at most 128 MiB in
# each nbdkit.  (8 GiB of data: test-delta-send-memory.sh.)
. "$(dirname "$0")/sync.sh"

BUFFER=64M
LIMIT_KIB=$((128 << 10))

cd "$d"
start nbdkit -f -U "$d/src" --filter=delta-send \
  sparse-random 64G percent=1.6 runlength=4194304 random-content=true \
  "delta-buffer=$BUFFER"
sender=$started
start nbdkit -f -U "$d/dst" delta-recv "target=$d/t.raw" format=raw \
  "buffer=$BUFFER"
receiver=$started
wait_for 10 test -S src
wait_for 10 test -S dst
nbdcopy --flush "nbd+unix:///?socket=$d/src" "nbd+unix:///?socket=$d/dst" ||
  die "nbdcopy"
peak() { sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"; }
sender_peak=$(peak "$sender") receiver_peak=$(peak "$receiver")
echo "peak KiB: delta-send $sender_peak, delta-recv $receiver_peak"
stop "$receiver"
((sender_peak <= LIMIT_KIB)) || die "delta-send: $sender_peak KiB"
((receiver_peak <= LIMIT_KIB)) || die "delta-recv: $receiver_peak KiB"
[[ $(stat -c %s t.raw) = $((64 << 30)) ]] || die "not 64 GiB"
