#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One machine with every kind of drive: the dry run states for each how it
# goes or why it is left out, the syncs do just that, and the replica is
# right; also when the machine starts again with its drives in another order.
. "$(dirname "$0")/sync.sh"

# Drives that are replicated.  The bitmaps of the first outlive QEMU.
lasting=(throttled cor overlay nonode clusters scsi nvme data)
passing=(raw v2 luks)

for i in throttled cor base nonode clusters scsi nvme v2 data; do
  case $i in
    clusters) options=cluster_size=4096 ;;
    v2) options=compat=0.10 ;;
    data) options=data_file=$d/data.raw ;;
    *) options=compat=1.1 ;;
  esac
  qemu-img create -q -f qcow2 -o "$options" "$d/$i.qcow2" 32M
done
qemu-img create -q -f qcow2 -F qcow2 -b "$d/base.qcow2" "$d/overlay.qcow2"
qemu-img create -q -f raw "$d/raw.raw" 32M
qemu-img create -q -f raw "$d/loop.raw" 32M
qemu-img create -q -f raw "$d/flash.bin" 1M
qemu-img create -q -f raw "$d/cd.iso" 1M
qemu-img create -q -f qcow2 "$d/ro.qcow2" 1M
# qemu-img measures its own CPU time, and gives up where the clock of that is
# too coarse to have moved.
wait_for 60 qemu-img create -q --object secret,id=s,data=secret -f luks \
  -o key-secret=s,iter-time=10 "$d/luks.luks" 32M
qemu-io -f qcow2 -c 'write -q -P 9 8M 1M' "$d/base.qcow2"
# A block device of the host, where one can be made.
if loop=$(losetup --find --show "$d/loop.raw"); then
  cleanup_fn losetup -d "$loop"
  passing+=(loop)
fi

qcow2() {
  echo "qcow2,node-name=$1,file.driver=file,file.filename=$d/$1.qcow2"
}

# start_machine ORDER...: the drives in this order, always with those that
# nobody wants replicated.  They do not run, but can be written to.
start_machine() {
  local i args=()
  for i; do
    case $i in
      throttled)
        args+=(-object throttle-group,id=tg -blockdev "$(qcow2 throttled)"
          -blockdev throttle,node-name=t0,throttle-group=tg,file=throttled
          -device virtio-blk-pci,share-rw=on,drive=t0,id=throttled) ;;
      cor)
        args+=(-blockdev "$(qcow2 cor)"
          -blockdev copy-on-read,node-name=c0,file=cor
          -device virtio-blk-pci,share-rw=on,drive=c0,id=cor) ;;
      nonode)
        args+=(-drive "if=none,id=nonode,format=qcow2,file=$d/nonode.qcow2"
          -device virtio-blk-pci,share-rw=on,drive=nonode) ;;
      scsi)
        args+=(-device virtio-scsi-pci,id=hba -blockdev "$(qcow2 scsi)"
          -device scsi-hd,share-rw=on,drive=scsi,bus=hba.0,id=scsi) ;;
      nvme)
        args+=(-blockdev "$(qcow2 nvme)"
          -device nvme,share-rw=on,drive=nvme,serial=1,id=nvme) ;;
      raw)
        args+=(-blockdev
          "raw,node-name=raw,file.driver=file,file.filename=$d/raw.raw"
          -device virtio-blk-pci,share-rw=on,drive=raw,id=raw) ;;
      loop)
        args+=(-blockdev
          "raw,node-name=loop,file.driver=host_device,file.filename=$loop"
          -device virtio-blk-pci,share-rw=on,drive=loop,id=loop) ;;
      luks)
        args+=(-object secret,id=s,data=secret -blockdev
          "luks,node-name=luks,key-secret=s,file.driver=file,file.filename=$d/luks.luks"
          -device virtio-blk-pci,share-rw=on,drive=luks,id=luks) ;;
      data)
        args+=(-blockdev
          "$(qcow2 data),data-file.driver=file,data-file.filename=$d/data.raw"
          -device virtio-blk-pci,share-rw=on,drive=data,id=data) ;;
      *)
        args+=(-blockdev "$(qcow2 "$i")"
          -device "virtio-blk-pci,share-rw=on,drive=$i,id=$i") ;;
    esac
  done
  start qemu-system-x86_64 -accel tcg -M q35 -S -m 32 -nodefaults \
    -display none -qmp "unix:$d/vm.qmp,server=on,wait=off" "${args[@]}" \
    -drive "if=pflash,format=raw,file=$d/flash.bin" \
    -blockdev "$(qcow2 ro),read-only=on" \
    -device virtio-blk-pci,drive=ro,id=ro \
    -blockdev "raw,node-name=iso,read-only=on,file.driver=file,file.filename=$d/cd.iso" \
    -device ide-cd,bus=ide.0,drive=iso,id=cd \
    -device ide-cd,bus=ide.1,id=empty
  machine=$started
  wait_for 10 qmp "$d/vm.qmp" query-status
}
# node DISK: what qemu-io of the monitor calls it.
node() {
  case $1 in throttled) echo t0 ;; cor) echo c0 ;; *) echo "$1" ;; esac
}

# write_all PATTERN: a few clusters of every drive, as a guest would.
write_all() {
  local i said
  for i in "${lasting[@]}" "${passing[@]}"; do
    said=$(qmp "$d/vm.qmp" human-monitor-command "$(jq -n \
      --arg c "qemu-io $(node "$i") \"write -q -P $1 ${1}M 128k\"" \
      '{"command-line": $c}')")
    [[ $said = '""' ]] || die "write to $i: $said"
  done
}

# table: NAME KIND of each drive, by the dry run.
table() {
  nbdsync sync --dry-run --json "qmp:$d/vm.qmp" "$d/replica" >"$d/plan.json"
  jq -r '(.disks[] | "\(.name) \(.kind)"),
         (.skipped[] | "\(.name) skip: \(.reason)")' "$d/plan.json" | sort
}
skipped="cd skip: read-only
empty skip: no medium
FLASH skip: the firmware's flash, not a disk
ro skip: read-only"

# expect_table KIND-OF-LASTING KIND-OF-PASSING
expect_table() {
  local want
  want=$({
      printf "%s $1\n" "${lasting[@]}"
      printf "%s $2\n" "${passing[@]}"
      echo "$skipped"
    } | sort)
  diff <(table | sed 's/^[^ ]*flash[^ ]* skip/FLASH skip/' | sort) \
    <(sort <<<"$want") || die "another table than expected"
}

# compare: the machine's drives, opened beside it, with the replica.
compare() {
  local i options
  for i in "${lasting[@]}" "${passing[@]}"; do
    case $i in
      raw | loop) options=driver=raw,file.filename=$d/$i.raw ;;
      luks) options=driver=luks,key-secret=s,file.filename=$d/luks.luks ;;
      *) options=driver=qcow2,file.filename=$d/$i.qcow2 ;;
    esac
    qemu-img compare -q -U --object secret,id=s,data=secret --image-opts \
      "$options" "driver=qcow2,file.filename=$d/replica/current/$i.qcow2" ||
      die "$i differs"
  done
}

start_machine "${lasting[@]}" "${passing[@]}"
write_all 1
expect_table full full
do_sync "qmp:$d/vm.qmp" "$d/replica"
expect_table unchanged unchanged
write_all 2
expect_table incremental incremental
nbdsync sync --dry-run "qmp:$d/vm.qmp" "$d/replica" | tee "$d/table"
grep -Eq '^empty +skip +- +no medium$' "$d/table" || die "no skip in the table"
do_sync "qmp:$d/vm.qmp" "$d/replica"
expect_kind incremental
write_all 3
do_sync "qmp:$d/vm.qmp" "$d/replica"
expect_kind incremental
qmp "$d/vm.qmp" quit >/dev/null
wait "$machine"
compare

# Off and on again, the drives the other way round.
order=()
for i in "${lasting[@]}" "${passing[@]}"; do order=("$i" "${order[@]}"); done
start_machine "${order[@]}"
write_all 4
expect_table incremental full
do_sync "qmp:$d/vm.qmp" "$d/replica"
qmp "$d/vm.qmp" quit >/dev/null
wait "$machine"
compare
