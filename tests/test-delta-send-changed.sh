# SPDX-License-Identifier: BSD-3-Clause
# A frame that was told of and dropped, and has another length when it is
# built again since the disk was written meanwhile, is an error, not other
# bytes.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

yes nbdsync | head -c 4M >"$d/disk" || true
serve changed -t 1 file "$d/disk" delta-batch=1M 2>"$d/log"
nbdcopy "$(uri_of changed)" "$d/wire"
apply "$d/wire" "$d/out"
cmp "$d/disk" "$d/out"

# The same content again is fine.
nbdcopy "$(uri_of changed)" "$d/wire2"
cmp "$d/wire" "$d/wire2"

head -c 1M /dev/urandom |
  dd of="$d/disk" bs=1M seek=1 conv=notrunc status=none
fails 1 'Input/output error' nbdcopy "$(uri_of changed)" "$d/wire2"
grep -q 'frame 2 was .* bytes and is .* now: the disk has changed' "$d/log"
