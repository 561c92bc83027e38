#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A reader serves an image that a machine has open, with its backing chain,
# over several connections, and takes no lock in any layer: the machine can
# commit an intermediate layer meanwhile.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
tool=$builddir/tests/qmp-tool
cd "$d"

qemu-img create -q -f raw 'base,=.img' 64M
qemu-io -f raw -c 'write -P 1 0 1M' 'base,=.img' >/dev/null
qemu-img create -q -f qcow2 -b 'base,=.img' -F raw mid.qcow2
qemu-io -c 'write -P 2 1M 1M' mid.qcow2 >/dev/null
qemu-img create -q -f qcow2 -b mid.qcow2 -F qcow2 top.qcow2
qemu-io -c 'write -P 3 2M 1M' top.qcow2 >/dev/null
qemu-img convert -O raw top.qcow2 want

start_qsd q --blockdev \
  driver=qcow2,node-name=top,file.driver=file,file.filename=top.qcow2

serve() {             # VERB ARGUMENT...
  rm -f stdin
  mkfifo stdin
  "$tool" "$@" "$d/sock" <stdin >ready &
  reader=$!
  exec 9>stdin
  wait_for 10 grep -q ready ready
}
unserve() {
  exec 9>&-
  wait $reader
  [[ ! -e sock ]]
}
uri="nbd+unix:///disk?socket=$d/sock"

serve read-disk q.qmp top
nbdinfo --json "$uri" | grep '"can_multi_conn": true' >/dev/null
nbdcopy --connections=4 "$uri" got
cmp want got
qmp q.qmp block-commit '{"job-id":"c","device":"top","top":"mid.qcow2"}'
wait_for 10 sh -c "python3 '$srcdir/tests/qmp.py' q.qmp query-jobs | grep '\[\]'"
unserve

# Of a stopped machine, locked as usual, raw.
kill "$started"
wait "$started"
serve reader 'base,=.img' raw plain -
nbdcopy "$uri" got
unserve
cmp -n 2097152 want got

# What cannot be opened is named, and nothing stays.
fails 1 'mid.qcow9: No such file' "$tool" reader mid.qcow9 qcow2 running - sock
fails 1 'want: cannot be read: .*not in qcow2 format' \
  "$tool" reader want qcow2 plain - sock
fails 1 'top.qcow2: cannot be read: .*b9' \
  "$tool" reader top.qcow2 qcow2 plain b9 sock
start_qsd q --blockdev \
  driver=qcow2,node-name=top,file.driver=file,file.filename=top.qcow2
rm 'base,=.img'
fails 1 'a backing file that cannot be opened' "$tool" read-disk q.qmp top sock
[[ ! -e sock ]]
