#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A precopy takes as many passes as it needs until the rest fits the final
# spool, the result is right, and no pass's bitmap is left; a guest
# that outruns the link is told so, and then nothing is left either.
. "$(dirname "$0")/sync.sh"

# Data that does not compress, so that the rate below holds it up.
head -c 24M /dev/urandom >"$d/noise"
for disk in a b; do
  qemu-img create -q -f qcow2 "$d/$disk.qcow2" 256M
  qemu-io -f qcow2 -c "write -q -s $d/noise 0 24M" "$d/$disk.qcow2"
done
source_daemon src a b
before=$(source_state "$d/src.qmp")

# The first pass takes some seconds; meanwhile the guest changes more than
# the final spool may take, and then no more.
nbdsync sync -v --json --scratch-limit 0 --final-limit 4M --rate 48M \
  "qmp:$d/src.qmp" "$d/replica" 2>"$d/passes" >"$d/result.json" &
sync=$!
wait_for 30 grep -q 'precopy pass$' "$d/passes"
disk_io src a 'write -P 1 100M 8M' 'write -P 2 0 64k' 'discard 4M 64k'
disk_io src b 'write -P 3 200M 64k'
wait "$sync" || die "the sync failed: $(cat "$d/passes")"
cat "$d/passes"
passes=$(grep -c 'precopy pass$' "$d/passes")
((passes == 2)) || die "$passes passes"
g=$(generation_dir "$d/replica")
for disk in a b; do
  same_content "$(disk_uri src $disk)" "$g/$disk.qcow2"
done
[[ $(qmp "$d/src.qmp" query-named-block-nodes |
       jq '[.[]."dirty-bitmaps"[]? | select(.name)] | length') = 2 ]] ||
  die "not one bitmap for each disk: $(source_state "$d/src.qmp")"

# No link is as slow as this one: the guest outruns it.
start "$builddir/tests/workload" write "$d/log2" \
  "$(disk_uri src a)" "$(disk_uri src b)" 100 8
writer=$started
changed() {
  (($(nbdsync sync --dry-run --json "qmp:$d/src.qmp" "$d/replica" |
        jq '[.disks[].dirty_bytes] | add') > 8 << 20))
}
wait_for 60 changed
fails 1 'the guest writes faster than the link carries' \
  nbdsync sync --scratch-limit 0 --final-limit 64K --rate 4M \
  "qmp:$d/src.qmp" "$d/replica"
stop "$writer"
after=$(source_state "$d/src.qmp" | grep -v 'bitmap nbdsync-.*-1$')
[[ $after = "$before" ]] || die "left in QEMU: $after"

# The chain goes on from the generation that was committed.
do_sync "qmp:$d/src.qmp" "$d/replica"
expect_kind incremental
same_content "$(disk_uri src a)" "$d/replica/current/a.qcow2"
