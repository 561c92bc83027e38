#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# With buffer=64M the receiver takes at most 128 MiB, in a plain copy and when
# the session record comes last.
source "$srcdir/tests/test-delta-recv-functions.sh"

peak() { awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$recv/status"; }
within() {
  echo "$1: $(peak) MiB"
  (($(peak) <= 128)) || die "$1: $(peak) MiB"
}
[[ -z ${LD_PRELOAD-} ]] && grep -q sanitize "$builddir/config.log" &&
  requires test -z sanitizers

truncate -s 200M "$d/disk"
random_at "$d/disk" 0 $((160 << 20))
start_recv target="$d/t.qcow2" buffer=64M
wire --stored "$d/disk" "$d/wire"
nbdcopy --flush --connections=4 "$d/wire" "$(uri)"
within "4 MiB batches"
stop_recv
rm "$d/t.qcow2"*

start_recv target="$d/t.qcow2" buffer=64M
wire --batch 33554432 "$d/disk" "$d/wire"
nbdcopy --flush --connections=4 "$d/wire" "$(uri)"
within "32 MiB batches"
stop_recv
rm "$d/t.qcow2"*

start_recv target="$d/t.qcow2" buffer=64M
commands=()
wire "$d/disk" "$d/wire"
for ((i = 1; i < $(stat -c %s "$d/wire") >> 27; i++)); do
  commands+=("slot:$d/wire:$i")
done
client "" "${commands[@]}" "slot:$d/wire:0" flush
within "record last"
same "$d/disk" "$d/t.qcow2"
