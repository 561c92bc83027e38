#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A private daemon adds bitmaps to stopped images so that they stay and
# count; an image that is in use is left alone with one line.
source "${srcdir:-$(dirname "$0")/..}/tests/functions.sh"
tool=$builddir/tests/qmp-tool
cd "$d"

qemu-img create -q -f qcow2 base.qcow2 16M
qemu-img create -q -f qcow2 -b base.qcow2 -F qcow2 a.qcow2
qemu-img create -q -f raw r.img 16M
bitmaps() {
  qemu-img info --output=json "$1" | python3 -c 'import json, sys
d = json.load(sys.stdin)["format-specific"]["data"]
print([(b["name"], b["granularity"], b["flags"]) for b in d.get("bitmaps", [])])'
}
"$tool" stopped add m1 a.qcow2 r.img
[[ $(bitmaps a.qcow2) = "[('m1', 4096, ['auto'])]" ]]
[[ $(bitmaps base.qcow2) = '[]' ]]

start_qsd q \
  --blockdev driver=qcow2,node-name=a,file.driver=file,file.filename=a.qcow2
holder=$started
fails 1 'a.qcow2: in use by another process \(is the machine running\? use qmp:\)' \
  "$tool" stopped add m2 r.img a.qcow2 >out
grep -q EBUSY out
[[ $(grep -c . "$d/stderr") = 1 ]]
kill "$holder"
wait "$holder"
[[ $(bitmaps a.qcow2) = "[('m1', 4096, ['auto'])]" ]]

"$tool" stopped remove m1 a.qcow2
[[ $(bitmaps a.qcow2) = '[]' ]]
fails 1 'none.qcow2: No such file' "$tool" stopped add m1 none.qcow2
