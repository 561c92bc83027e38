# SPDX-License-Identifier: BSD-3-Clause
# delta-stats: each member, and that the last state is exact.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

random_disk "$d/disk" $((30 << 20))
cd "$d"                         # a relative name, and nbdkit changes to /
nbdkit -U - --filter=delta-send file disk delta-stats=stats delta-level=3 \
  --run 'nbdcopy --request-size=4096 "$uri" wire'
cd /
extents "$d/wire" >"$d/extents"
sum() { awk -v kind="$1" '$3 == kind { n += $2 } END { print n + 0 }' \
        "$d/extents"; }
is() { [[ $(stat_of "$d/stats" "$1") = "$2" ]] ||
       die "$1 is $(stat_of "$d/stats" "$1"), not $2"; }

apply "$d/wire" "$d/out"
frames=$(jq .frames "$d/record")
is frames "$frames"
is frames_built "$frames"
is planned_bytes "$(jq .data_bytes "$d/record")"
is data_bytes "$(sum data)"
is zero_bytes "$(sum zero)"
is disk_bytes_sent $((30 << 20))
is frames_sent "$(stat_of "$d/stats" frames)"
is level 3
is queue_bytes 0
is queue_frames 0
# In pieces of 4 KiB the copy reads each byte of each frame once.
is sent_bytes "$(stat_of "$d/stats" packed_bytes)"
(($(stat_of "$d/stats" read_bytes) >= $(stat_of "$d/stats" planned_bytes)))
jq -e '.reader_waits >= 0 and .worker_waits >= 0' "$d/stats" >/dev/null

refuses 'delta-stats: .*cannot write' file "$d/disk" \
  delta-stats="$d/no/such/dir/stats"
