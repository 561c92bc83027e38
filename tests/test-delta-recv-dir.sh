#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A replica directory: a full, increments, one that is empty.  Each
# generation keeps the exact content of its time.
source "$srcdir/tests/test-delta-recv-functions.sh"
threads=1

chain=11111111-2222-3333-4444-555555555555
truncate -s 20M "$d/disk"
random_at "$d/disk" $((1 << 20)) $((5 << 20))
start_recv dir="$d/replica"

wire --disk vda --chain $chain "$d/disk" "$d/wire"
send "$d/wire" vda
[[ $(readlink "$d/replica/current") = generations/000001 ]]
same "$d/disk" "$d/replica/current/vda.qcow2"
cp "$d/disk" "$d/disk.1"

# Two increments: data and zeroes over data.
for g in 2 3; do
  at=$((g * 3000000 / 512 * 512))
  random_at "$d/disk" $at 70144
  fallocate -p -o $((g << 20)) -l 131072 "$d/disk"
  printf '%s\n' "$((g << 20)) 131072 zero" "$at 70144 data" >"$d/plan"
  wire --disk vda --chain $chain --base $((g - 1)) --extents "$d/plan" \
    "$d/disk" "$d/wire"
  send "$d/wire" vda
  [[ $(readlink "$d/replica/current") = generations/00000$g ]]
  same "$d/disk" "$d/replica/current/vda.qcow2"
  cp "$d/disk" "$d/disk.$g"
done

# Nothing changed: frame 0 alone, an empty overlay.
: >"$d/plan"
wire --disk vda --chain $chain --base 3 --extents "$d/plan" "$d/disk" "$d/wire"
send "$d/wire" vda
[[ $(readlink "$d/replica/current") = generations/000004 ]]
[[ $(field "$d/replica/current/manifest.json" disks.vda.frames) = 0 ]]

for g in 1 2 3; do
  same "$d/disk.$g" "$d/replica/generations/00000$g/vda.qcow2"
done
same "$d/disk" "$d/replica/current/vda.qcow2"
[[ $(field "$d/replica/current/manifest.json" base) = 3 ]]
[[ $(wc -l <"$d/replica/journal.jsonl") = 4 ]]

# A directory can be moved: all names in it are relative.
stop_recv
mv "$d/replica" "$d/moved"
same "$d/disk" "$d/moved/current/vda.qcow2"

# An image that was written to is not built upon.
start_recv dir="$d/moved"
qemu-io -f qcow2 -c 'write 0 512' "$d/moved/current/vda.qcow2" >/dev/null
wire --disk vda --chain $chain --base 4 --extents "$d/plan" "$d/disk" "$d/wire"
refused "$d/wire" vda 'changed since it was committed'
[[ $(readlink "$d/moved/current") = generations/000004 ]]

# A full of the same chain replaces it; its image stands alone.
wire --disk vda --chain $chain "$d/disk" "$d/wire"
send "$d/wire" vda
same "$d/disk" "$d/moved/current/vda.qcow2"
[[ $(field "$d/moved/current/manifest.json" disks.vda.base) = 0 ]]
find "$d/moved" -type f ! -perm 600 | grep . && die "mode of a file"
find "$d/moved/generations" -type d ! -perm 700 | grep . &&
  die "mode of a directory"
[[ ! -e $d/moved/generations/incoming ]]
