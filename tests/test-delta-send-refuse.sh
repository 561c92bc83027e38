# SPDX-License-Identifier: BSD-3-Clause
# What cannot work is refused at the start, with the reason, and names the
# export and the context.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

increment "$d/session"
s="delta-session=$d/session"
qemu-img create -q -f qcow2 "$d/disk.qcow2" 1M
qemu-img bitmap --add "$d/disk.qcow2" good
qemu-img bitmap --add --disable "$d/disk.qcow2" off
start qemu-nbd -r -e 10 -t -k "$d/sock" -x disk1 -B good -f qcow2 \
  "$d/disk.qcow2"
wait_for 10 test -S "$d/sock"

# The bitmap that is there works: the rest is not refused for another reason.
dump "$d/wire" nbd "socket=$d/sock" export=disk1 delta-bitmap=good "$s"
refuses 'no context qemu:dirty-bitmap:bad for export "disk1"' \
  nbd "socket=$d/sock" export=disk1 delta-bitmap=bad "$s"
refuses 'no context qemu:dirty-bitmap:off for export "disk1"' \
  nbd "uri=nbd+unix:///disk1?socket=$d/sock" delta-bitmap=off "$s"
refuses 'map of export "disk2" at .*/sock: ' \
  nbd "socket=$d/sock" export=disk2 delta-bitmap=good "$s"
refuses 'map of export "" at .*/nosock: .*No such file' \
  nbd "socket=$d/nosock" delta-bitmap=good "$s"

# A map of another disk.
truncate -s 2M "$d/other"
refuses 'map is of an export of 1048576 bytes but the disk has 2097152' \
  file "$d/other" delta-bitmap=good "$s" \
  "delta-map-uri=nbd+unix:///disk1?socket=$d/sock"

# Parameters that do not fit together.
refuses 'delta-map-uri: needed' file "$d/other" delta-bitmap=good "$s"
refuses 'delta-map-uri: needs' file "$d/other" delta-map-uri=nbd://localhost
refuses 'delta-qmp and delta-node' file "$d/other" "delta-qmp=$d/q"
refuses 'delta-qmp and delta-node' nbd "socket=$d/sock" export=disk1 \
  "delta-qmp=$d/q" delta-node=a "$s"
refuses 'could not decipher boolean' file "$d/other" delta-local=perhaps
refuses "unknown parameter 'delta-bitmaps'" file "$d/other" delta-bitmaps=x

# Threads of ours cannot read a plugin that serves one request at a time.
refuses 'in parallel' --filter=noparallel file "$d/other"
