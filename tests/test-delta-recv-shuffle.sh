#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Pieces in any order, of any size, twice, on any connection, zeroes left out,
# envelopes last, the session record last; with memory for two frames.
source "$srcdir/tests/test-delta-recv-functions.sh"

chain=11111111-2222-3333-4444-555555555555
truncate -s 24M "$d/disk"
random_at "$d/disk" $((1 << 20)) $((7 << 20))
for ((i = 0; i < 200; i++)); do
  random_at "$d/disk" $((RANDOM * 512 + (8 << 20))) $((RANDOM % 4 * 512 + 512))
done
wire --chain $chain --disk vda --batch 1048576 --stored --keep-zeroes \
  "$d/disk" "$d/wire"

g=0
for options in "" "drop" "envelope-last" "record-last" "one" \
               "drop envelope-last record-last" "drop record-last one"; do
  for buffer in 4M 256M; do
    seed=$RANDOM
    echo "seed $seed, buffer $buffer, options $options"
    start_recv dir="$d/replica" buffer=$buffer
    # shellcheck disable=SC2086
    "$builddir/tests/test-delta-recv-shuffle" $seed "$d/wire" "$(uri vda)" \
      $options
    stop_recv
    g=$((g + 1))
    [[ $(field "$d/replica/current/manifest.json" generation) = $g ]]
    same "$d/disk" "$d/replica/current/vda.qcow2"
    ! grep error: "$d/recv.log" || die "a message"
    # A session is of one use.
    wire --chain $chain --disk vda --batch 1048576 --stored --keep-zeroes \
      "$d/disk" "$d/wire"
    rm -r "$d/replica/generations/"*"$((g - 1))" 2>/dev/null || true
  done
done
