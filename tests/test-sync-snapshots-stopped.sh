#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A stopped machine whose user works on its images: overlays put over them,
# committed, dropped; an image put back from a copy.  The replica equals
# what the machine would boot, and only what can be proved is incremental.
. "$(dirname "$0")/sync.sh"

# put IMAGE COMMAND...: qemu-io on an image file, as a machine that ran.
put() {
  local image=$1 c args=()
  shift
  for c; do args+=(-c "$c"); done
  qemu-io -f qcow2 "${args[@]}" "$image" >"$d/qemu-io.out" || die "$image: $*"
}

# synced IMAGE KIND [REASON]: a sync of what the machine has now.
synced() {
  do_sync "image:$1" "$d/replica"
  expect_kind "$2"
  [[ $(result '.disks[0].reason') = *"${3:-}"* ]] ||
    die "another reason than $3: $(result '.disks[0].reason')"
  same_content "$1" "$d/replica/current/$(result '.disks[0].name').qcow2"
}

# overlay TOP BELOW
overlay() { qemu-img create -q -f qcow2 -F qcow2 -b "$2" "$1"; }

# Twice the same story, the second time with a cluster size of its own and a
# discarded range, which in an overlay must not show what is below.
for cluster in 65536 4096; do
  rm -rf "$d/replica" "$d"/*.qcow2
  qemu-img create -q -f qcow2 -o "cluster_size=$cluster" "$d/x.qcow2" 64M
  put "$d/x.qcow2" 'write -P 1 0 4M' 'write -P 2 30M 1M'
  synced "$d/x.qcow2" full
  put "$d/x.qcow2" 'write -P 3 1M 64k'
  cp "$d/x.qcow2" "$d/copy.qcow2"

  # An overlay with its own writes and discards over what is not synced yet.
  overlay "$d/o1.qcow2" "$d/x.qcow2"
  put "$d/o1.qcow2" 'write -P 4 2M 64k' 'discard 30M 512k' 'write -z 3M 64k'
  synced "$d/o1.qcow2" incremental 'a snapshot was taken'
  put "$d/o1.qcow2" 'write -P 5 10M 64k' 'write -P 6 30M 4k'
  synced "$d/o1.qcow2" incremental 'its bitmap tells'

  # Dropped: the machine is what it was at the snapshot, and goes on.
  rm "$d/o1.qcow2"
  synced "$d/x.qcow2" incremental 'of an older generation'
  put "$d/x.qcow2" 'write -P 7 20M 64k'
  synced "$d/x.qcow2" incremental 'its bitmap tells'

  # Two overlays, the lower one synced; both committed by qemu-img.
  overlay "$d/o1.qcow2" "$d/x.qcow2"
  put "$d/o1.qcow2" 'write -P 8 21M 64k'
  synced "$d/o1.qcow2" incremental 'a snapshot was taken'
  overlay "$d/o2.qcow2" "$d/o1.qcow2"
  put "$d/o2.qcow2" 'write -P 9 22M 64k' 'discard 0 128k'
  qemu-img commit -q -b "$d/x.qcow2" "$d/o2.qcow2"
  rm "$d"/o?.qcow2
  synced "$d/x.qcow2" incremental 'of an older generation'

  # An image put back from a copy that is some generations old, and
  # written to before anybody looks.
  put "$d/copy.qcow2" 'write -P 10 40M 64k'
  cp "$d/copy.qcow2" "$d/x.qcow2"
  synced "$d/x.qcow2" incremental 'of an older generation'

  # The replica's own history ends with a full sync: no older proof counts.
  cp "$d/x.qcow2" "$d/copy.qcow2"
  nbdsync sync --full "image:$d/x.qcow2" "$d/replica"
  cp "$d/copy.qcow2" "$d/x.qcow2"
  synced "$d/x.qcow2" full 'no bitmap'

  # An overlay of another size than the image below is no such story.
  overlay "$d/o1.qcow2" "$d/x.qcow2"
  qemu-img resize -q "$d/o1.qcow2" 80M
  put "$d/o1.qcow2" 'write -P 11 70M 64k'
  synced "$d/o1.qcow2" full 'has grown'
done

# Internal snapshots: QEMU refuses to revert an image that has bitmaps
# (test-sync-refuse.sh has the message); one reverted without them is full.
rm -rf "$d/replica" "$d"/*.qcow2
qemu-img create -q -f qcow2 "$d/x.qcow2" 64M
put "$d/x.qcow2" 'write -P 1 0 1M'
qemu-img snapshot -c s "$d/x.qcow2"
put "$d/x.qcow2" 'write -P 2 0 64k'
synced "$d/x.qcow2" full
if qemu-img snapshot -a s "$d/x.qcow2" 2>"$d/refused"; then
  synced "$d/x.qcow2" full
else
  cat "$d/refused"
  nbdsync forget "image:$d/x.qcow2" "$d/replica"
  qemu-img snapshot -a s "$d/x.qcow2"
  synced "$d/x.qcow2" full 'no bitmap'
fi

# Another image in its place.
qemu-img create -q -f qcow2 "$d/new.qcow2" 64M
put "$d/new.qcow2" 'write -P 12 5M 1M'
mv "$d/new.qcow2" "$d/x.qcow2"
synced "$d/x.qcow2" full 'no bitmap'
