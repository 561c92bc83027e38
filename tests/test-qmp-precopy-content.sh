#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A pass reads an image that is written to all the time; it and what its
# bitmap says is dirty at the end make up the whole disk; without the flush
# they do not.  4 KiB clusters, so that L2 tables are allocated throughout.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
tool=$builddir/tests/qmp-tool
cd "$d"

serve() {             # FILE HOW BITMAP
  rm -f stdin
  mkfifo stdin
  "$tool" reader "$1" qcow2 "$2" "$3" "$d/sock" <stdin >ready &
  reader=$!
  exec 8>stdin
  wait_for 10 grep -q ready ready
}
unserve() {
  exec 8>&-
  wait $reader
}
image="nbd+unix:///disk?socket=$d/sock"
live="nbd+unix:///a?socket=$d/nbd"

# pass CLUSTER all|writes flush|none: one pass; is it exact?
pass() {
  rm -f a.qcow2 q.qmp nbd nbd.wrote begun go map got want
  qemu-img create -q -f qcow2 -o cluster_size="$1" a.qcow2 128M
  start_qsd q --blockdev \
    driver=qcow2,node-name=a,discard=unmap,file.driver=file,file.filename=a.qcow2 \
    --nbd-server addr.type=unix,addr.path=nbd \
    --export type=nbd,id=a,node-name=a,name=a,writable=on
  qsd=$started
  start python3 "$srcdir/tests/test-qmp-writer.py" nbd a "$2"
  writer=$started
  wait_for 30 sh -c '[ $(stat -c %s a.qcow2) -gt 15000000 ]'

  "$tool" bitmap-add q.qmp a p1 4096
  if [[ $3 = flush ]]; then
    mkfifo go
    "$tool" precopy q.qmp a <go >begun 2>verdict &
    tool_pid=$!
    exec 9>go
    wait_for 10 grep begun begun
  fi
  serve a.qcow2 running -
  for i in 1 2 3 4 5; do
    touch started
    wait_for 10 test nbd.wrote -nt started
  done
  nbdcopy "$image" got
  unserve
  if [[ $3 = flush ]]; then
    echo >&9
    exec 9>&-
    wait $tool_pid || die "$(cat verdict)"
  fi

  kill -0 "$writer"
  kill "$writer"
  wait "$writer" || :
  qemu-img convert -f raw -O raw "$live" want
  ! cmp -s want got || die "nothing moved: no test"
  "$tool" map q.qmp a p1 4096 "$d/map" 0123abcd
  serve map plain chg
  nbdinfo --map=qemu:dirty-bitmap:chg "$image" |
    awk '$3 == 1 { print $1, $2 }' >dirty
  unserve
  python3 - <<'END'
got, want = open('got', 'r+b'), open('want', 'rb')
for line in open('dirty'):
    offset, length = map(int, line.split())
    want.seek(offset)
    got.seek(offset)
    got.write(want.read(length))
END
  kill "$qsd"
  wait "$qsd"
  exact=yes
  cmp got want || exact=no
}

pass 65536 writes none
[[ $exact = no ]] || die "exact without a flush: no control"
pass 65536 writes flush
[[ $exact = yes ]]
pass 65536 all flush
[[ $exact = yes ]]
pass 4096 all flush
[[ $exact = yes ]]
