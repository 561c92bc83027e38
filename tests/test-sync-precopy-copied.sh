#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A guest's first write to a cluster of a backing file, of an internal
# snapshot or of a compressed image makes QEMU copy the rest of that cluster
# to a new one, at the end of a file that was shorter when the precopy's
# reader opened it: the reader sees zeroes there.  What was copied must come,
# too.
. "$(dirname "$0")/sync.sh"

# 16 MiB that zstd and zlib make smaller.
head -c 12M /dev/urandom | base64 -w 0 >"$d/noise"
qemu-img create -q -f qcow2 "$d/base.qcow2" 64M
qemu-io -f qcow2 -c "write -q -s $d/noise 0 16M" "$d/base.qcow2"
# Something in every L2 table, which stays where it is then.
qemu-img create -q -f qcow2 -b base.qcow2 -F qcow2 "$d/backing.qcow2"
qemu-img create -q -f qcow2 -o cluster_size=1M -b base.qcow2 -F qcow2 \
  "$d/large.qcow2"
cp "$d/base.qcow2" "$d/snapshot.qcow2"
qemu-img snapshot -c s "$d/snapshot.qcow2"
qemu-img convert -c -O qcow2 "$d/base.qcow2" "$d/compressed.qcow2"
disks=(backing large snapshot compressed)
for disk in "${disks[@]}"; do
  qemu-io -f qcow2 -c 'write -q -P 1 0 512' "$d/$disk.qcow2"
done

# The reader has opened the image when delta-send is started, the second
# nbdkit, and has not looked into it.
for disk in "${disks[@]}"; do
  source_daemon "$disk" "$disk"
  for kind in full incremental; do
    options=(--scratch-limit 0)
    [[ $kind = incremental ]] || options+=(--full)
    disk_io "$disk" "$disk" 'write -P 2 1M 256k'
    sync_stopping_at process-start=nbdkit:2 "${options[@]}" \
      "qmp:$d/$disk.qmp" "$d/r-$disk"
    # Some: what compressed clusters leave free is used first.
    [[ $kind = full ]] && at=512 || at=123904
    disk_io "$disk" "$disk" "write -P 3 $((at + (4 << 20))) 1k" \
      "write -P 4 $((at + (5 << 20))) 512" "write -P 5 $((at + (6 << 20))) 8k" \
      "write -P 6 $((at + (7 << 20))) 512" "write -P 7 $((at + (8 << 20))) 8k" \
      "write -P 8 $((at + (9 << 20))) 512" flush
    kill -CONT $(awk '/^stopped/ { print $3 }' "$d/fault")
    wait "$sync" || die "the sync failed: $(cat "$d/stopped.err")"
    [[ $(jq -r '.disks[].way' "$d/stopped.json") = precopy ]] ||
      die "not by precopy"
    same_content "$(disk_uri "$disk" "$disk")" "$d/r-$disk/current/$disk.qcow2"
    echo "$disk, $kind: the same"
  done
done
