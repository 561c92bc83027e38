#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cleanup removes what a dead sync left and nothing else; forget ends one
# replication, by its replica or by its chain; a foreign bitmap and another
# replica's stay.
. "$(dirname "$0")/sync.sh"

qemu-img create -q -f qcow2 "$d/a.qcow2" 64M
head -c 8M /dev/urandom >"$d/noise"
qemu-io -f qcow2 -c "write -q -s $d/noise 0 8M" "$d/a.qcow2"
source_daemon src a
qmp "$d/src.qmp" block-dirty-bitmap-add '{"node": "a", "name": "theirs"}'
bitmaps() { source_state "$d/src.qmp" | sed -n 's/^bitmap //p'; }
chain() { nbdsync status --json "$d/$1" | jq -r '.disks[0].chain[:8]'; }

do_sync "qmp:$d/src.qmp" "$d/r1"
do_sync "qmp:$d/src.qmp" "$d/r2"
before=$(source_state "$d/src.qmp")

# A session that dies in a precopy leaves a bitmap of its pass.
nbdsync sync --full --scratch-limit 0 --rate 4M --progress \
  "qmp:$d/src.qmp" "$d/r1" 2>"$d/progress" &
sync=$!
wait_for 30 grep -q '[0-9] %' "$d/progress"
agents=$(cat "/proc/$sync/task/$sync/children")
kill -9 "$sync"
for p in $agents; do
  wait_for 20 test ! -e "/proc/$p"
done
[[ $(source_state "$d/src.qmp") != "$before" ]] || die "nothing was left"
nbdsync cleanup "qmp:$d/src.qmp"
[[ $(source_state "$d/src.qmp") = "$before" ]] ||
  die "after cleanup: $(source_state "$d/src.qmp")"
[[ -z $(find "$d" -maxdepth 1 -name '.nbdsync*') ]] || die "scratch is left"

c1=$(chain r1)
c2=$(chain r2)
nbdsync forget "qmp:$d/src.qmp" "$d/r1"
[[ $(bitmaps) = $(printf 'nbdsync-%s-1\ntheirs' "$c2") ]] ||
  die "after forgetting $c1: $(bitmaps)"
rm -rf "$d/r2"
fails 1 'no replica' nbdsync forget "qmp:$d/src.qmp" "$d/r2"
fails 2 'not the first eight digits' \
  nbdsync forget --chain=theirs "qmp:$d/src.qmp"
nbdsync forget --chain="$c2" "qmp:$d/src.qmp"
[[ $(bitmaps) = theirs ]] || die "after forgetting $c2: $(bitmaps)"
