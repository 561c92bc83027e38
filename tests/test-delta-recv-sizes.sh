#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Disks of one sector, of odd sizes, and of 8 TiB with data at both ends only,
# which costs no more than its data; zeroes of 4 GiB in one command.
source "$srcdir/tests/test-delta-recv-functions.sh"

chain=11111111-2222-3333-4444-555555555555
start_recv dir="$d/replica"
for size in 512 $(((1 << 20) + 512)) $(((64 << 10) - 512)); do
  disk=d$size
  truncate -s "$size" "$d/$disk"
  random_at "$d/$disk" 0 512
  random_at "$d/$disk" $((size - 512)) 512
  wire --disk "$disk" --chain $chain "$d/$disk" "$d/wire"
  send "$d/wire" "$disk"
  same "$d/$disk" "$d/replica/current/$disk.qcow2"
  random_at "$d/$disk" $((size - 512)) 512
  echo "$((size - 512)) 512 data" >"$d/plan"
  g=$(field "$d/replica/current/manifest.json" generation)
  wire --disk "$disk" --chain $chain --base "$g" --extents "$d/plan" \
    "$d/$disk" "$d/wire"
  send "$d/wire" "$disk"
  same "$d/$disk" "$d/replica/current/$disk.qcow2"
done

# 8 TiB, in full and then an increment.
size=$((8 << 40))
truncate -s "$size" "$d/huge"
random_at "$d/huge" 0 65536
random_at "$d/huge" $((size - 65536)) 65536
ends() {
  cmp <(head -c 65536 "$d/huge") <(qemu-io -U -r -f qcow2 -c "read -v 0 64k" \
    "$1" | awk '/^[0-9a-f]+:/ { for (i = 2; i <= 17; i++) printf "%s", $i }' |
    xxd -r -p)
  cmp <(tail -c 65536 "$d/huge") <(qemu-io -U -r -f qcow2 -c \
    "read -v $((size - 65536)) 64k" "$1" |
    awk '/^[0-9a-f]+:/ { for (i = 2; i <= 17; i++) printf "%s", $i }' |
    xxd -r -p)
}
requires xxd -v
start=$SECONDS
wire --disk huge --chain $chain "$d/huge" "$d/wire"
send "$d/wire" huge
ends "$d/replica/current/huge.qcow2"
random_at "$d/huge" $((size - 65536)) 65536
g=$(field "$d/replica/current/manifest.json" generation)
printf '%s\n' "0 65536 data" "$((size - 65536)) 65536 data" >"$d/plan"
wire --disk huge --chain $chain --base "$g" --extents "$d/plan" "$d/huge" \
  "$d/wire"
send "$d/wire" huge
ends "$d/replica/current/huge.qcow2"
((SECONDS - start <= 10)) || die "8 TiB took $((SECONDS - start)) s"
[[ $(du -sm "$d/replica" | cut -f1) -lt 8 ]] || die "too large a replica"
[[ $(qemu-img info -U --output=json "$d/replica/current/huge.qcow2" |
  grep virtual-size) = *" $size,"* ]]

# Gaps may be zeroed, in any length.
wire --disk huge --chain $chain "$d/huge" "$d/wire"
client huge zero:0:4294966784 "wire:$d/wire" zero:0:4294966784 \
  zero:137438953472:4294966784 flush
ends "$d/replica/current/huge.qcow2"
