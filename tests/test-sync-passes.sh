#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A precopy takes as many passes as it needs until the rest fits the final
# spool, the result is one instant, and no pass's bitmap is left; a guest
# that outruns the link is told so, and then nothing is left either.
. "$(dirname "$0")/sync.sh"

for disk in a b; do
  qemu-img create -q -f qcow2 "$d/$disk.qcow2" 256M
done
source_daemon src a b
before=$(source_state "$d/src.qmp")
start "$builddir/tests/workload" write "$d/log" \
  "$(disk_uri src a)" "$(disk_uri src b)" 30 7
writer=$started
logged() { (($(wc -l <"$d/log") >= $1)); }
wait_for 60 logged 1000

# The first pass takes some seconds, in which the guest changes more than
# 4 MiB; that takes less, and so on.
do_sync -v --scratch-limit 0 --final-limit 4M --rate 8M \
  "qmp:$d/src.qmp" "$d/replica" 2>"$d/passes"
cat "$d/passes"
passes=$(grep -c 'precopy pass$' "$d/passes")
((passes > 1)) || die "$passes pass for a guest that writes all the time"
g=$(generation_dir "$d/replica")
[[ $(qmp "$d/src.qmp" query-named-block-nodes |
       jq '[.[]."dirty-bitmaps"[]? | select(.name)] | length') = 2 ]] ||
  die "not one bitmap for each disk: $(source_state "$d/src.qmp")"

stop "$writer"
"$builddir/tests/workload" check "$d/log" "$g/a.qcow2" "$g/b.qcow2" ||
  die "not one instant"

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
