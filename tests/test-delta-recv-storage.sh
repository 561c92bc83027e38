#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The storage daemon dies in the middle of a stream: an error at once, with
# its reason, and no hang; the replica is as it was.
source "$srcdir/tests/test-delta-recv-functions.sh"
threads=1

truncate -s 8M "$d/disk"
random_at "$d/disk" 0 $((5 << 20))
wire --disk vda --batch 1048576 "$d/disk" "$d/wire"

daemon_of() { pgrep -P "$1"; }

# Idle, or at the last of what it was sent: the session fails.
start_recv dir="$d/replica"
daemon=$(daemon_of "$recv")
start client vda "slot:$d/wire:0" "slot:$d/wire:1" "touch:$d/begun" \
  "wait:$d/killed" "!slot:$d/wire:2" '!flush'
p=$started
wait_for 10 test -e "$d/begun"
kill -9 "$daemon"
wait_for 10 grep -q 'vda: .*qemu-storage-daemon: ended: killed by signal 9' \
  "$d/recv.log"
touch "$d/killed"
wait "$p"
[[ ! -e $d/replica/current ]]
# A new stream finds that out as well.
wire --disk vda "$d/disk" "$d/wire"
refused "$d/wire" vda 'ended: killed by signal 9; start nbdkit again'
stop_recv

# With writes in flight: stopped first, so that there are some.
: >"$d/recv.log"
rm -f "$d/begun"
start_recv dir="$d/replica"
daemon=$(daemon_of "$recv")
wire --disk vda --batch 1048576 "$d/disk" "$d/wire"
client vda "slot:$d/wire:0"
kill -STOP "$daemon"
start client vda "wire:$d/wire" "touch:$d/begun" "!flush"
p=$started
wait_for 10 test -e "$d/begun"
kill -9 "$daemon"
wait "$p"
grep -q 'qemu-storage-daemon: ended: killed by signal 9' "$d/recv.log"
stop_recv

# The daemon ends with nbdkit, however that ends.
start_recv dir="$d/replica"
daemon=$(daemon_of "$recv")
[[ -n $daemon ]]
kill -9 "$recv"
wait_for 10 test ! -d "/proc/$daemon"
start_recv dir="$d/replica"
daemon=$(daemon_of "$recv")
stop_recv
[[ ! -d /proc/$daemon ]] || die "the storage daemon is still there"

# It is not there at all.
fails 1 'qemu-storage-daemon: cannot run' \
  env PATH="$builddir/run.d" nbdkit -f -U "$d/no.sock" delta-recv \
  dir="$d/replica"
