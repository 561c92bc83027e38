#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A map file has the bits of the bitmap as it was, to its granularity, is
# served by a reader, and leaves nothing in QEMU, made or failed.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
tool=$builddir/tests/qmp-tool
cd "$d"

qemu-img create -q -f qcow2 a.qcow2 1G
start_qsd q \
  --blockdev driver=qcow2,node-name=a,file.driver=file,file.filename=a.qcow2 \
  --nbd-server addr.type=unix,addr.path=nbd \
  --export type=nbd,id=a,node-name=a,name=a,writable=on
write() { qemu-io -f raw -c "write $1" "nbd+unix:///a?socket=$d/nbd" >io.out; }

"$tool" bitmap-add q.qmp a m0 4096
write '1M 4k'
write '512M 1M'
"$tool" list q.qmp >before
"$tool" map q.qmp a m0 4096 "$d/map" 0123abcd
write '3M 4k'                   # too late for the map

mkfifo stdin
"$tool" reader "$d/map" qcow2 plain chg "$d/sock" <stdin >ready &
reader=$!
exec 9>stdin
wait_for 10 grep -q ready ready
nbdinfo --map=qemu:dirty-bitmap:chg "nbd+unix:///disk?socket=$d/sock" |
  awk '$3 == 1 { print $1, $2 }' >dirty
exec 9>&-
wait $reader
[[ ! -e sock ]]
printf '1048576 4096\n536870912 1048576\n' | diff dirty -

nothing_left() {
  ! qmp q.qmp query-named-block-nodes | grep nbdsync-
  [[ ! -e map2 ]]
}
nothing_left
fails 1 "Dirty bitmap 'm9' not found" \
  "$tool" map q.qmp a m9 4096 "$d/map2" 0123abcd
nothing_left
fails 1 "$d/map: File exists" "$tool" map q.qmp a m0 4096 "$d/map" 0123abcd
nothing_left
