#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# 1000 random writes of 4 KiB cost on the wire what zstd makes of these
# pages, a tenth more, and 64 bytes for each extent.
. "$(dirname "$0")/sync.sh"

qemu-img create -q -f qcow2 "$d/disk.qcow2" 2G
source_daemon src disk
do_sync "qmp:$d/src.qmp" "$d/replica"

# Pages of programs and of text, at distinct random places.
cat "$(command -v qemu-img)" "$srcdir"/*/*.[ch] "$(command -v qemu-nbd)" | head -c 4096000 >"$d/pages" ||
  true
[[ $(stat -c %s "$d/pages") = 4096000 ]] || die "not 1000 pages"
# Distinct, for the factor is odd and the disk has 2^19 pages.
awk 'BEGIN { for (i = 0; i < 1000; i++) print (i * i * 8 + i * 104729) % 524288 }' \
  >"$d/places"
[[ $(sort -u "$d/places" | wc -l) = 1000 ]] || die "places are not distinct"
n=0
while read -r place; do
  dd if="$d/pages" of="$d/page.$n" bs=4096 skip="$n" count=1 status=none
  echo "write -q -s $d/page.$n $((place * 4096)) 4k"
  n=$((n + 1))
done <"$d/places" >"$d/commands"
qemu-io -f raw "$(disk_uri src disk)" <"$d/commands" >"$d/qemu-io.out"

do_sync "qmp:$d/src.qmp" "$d/replica"
expect_kind incremental
# In the order of the disk, as they are sent; a level for which zstd is as
# quick as here.
paste "$d/places" <(seq 0 999) | sort -n | cut -f2 |
  while read -r n; do cat "$d/page.$n"; done | zstd -1 -c >"$d/packed"
extents=$(sort -n "$d/places" | awk '$1 != last + 1 { n++ } { last = $1 }
                                     END { print n }')
allowed=$(($(stat -c %s "$d/packed") * 11 / 10 + 64 * extents))
wire=$(result '.disks[0].wire_bytes')
echo "wire $wire bytes, zstd $(stat -c %s "$d/packed"), $extents extents," \
  "allowed $allowed"
[[ $(result '.disks[0].dirty_bytes') = 4096000 ]] || die "dirty: $(result '.disks[0].dirty_bytes')"
((wire > 0 && wire <= allowed)) || die "too much"
stop "$started"
same_content "$d/disk.qcow2" "$d/replica/current/disk.qcow2"
