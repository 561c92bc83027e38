# SPDX-License-Identifier: BSD-3-Clause
# Large disks: 8 TiB with data at both ends, and every 16th cluster of
# 64 GiB, are planned and sent in seconds and in little memory.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

# A memory disk is sparse whatever the file system of $d.
SECONDS=0
nbdkit -U - --filter=delta-send --filter=cow \
  data 'data=(0x41 * 65536) @0x7ffffff0000 (0x42 * 65536)' size=8T \
  "delta-stats=$d/stats" --run "nbdcopy \"\$uri\" '$d/wire'"
echo "8 TiB: $SECONDS s"
((SECONDS < 10))                # a second, on a machine that is not busy
diff <(extents "$d/wire") - <<END
0 65536 data
65536 $((0x7ffffff0000 - 65536)) zero
$((0x7ffffff0000)) 65536 data
END
[[ $(jq .size <("$builddir/tests/wire-apply" "$d/wire" "$d/out")) = \
   8796093022208 ]]

# 65536 clusters; the plan from a list, the data from a pattern.
awk 'BEGIN { for (i = 0; i < 1048576; i += 16)
               printf "%.0f 65536\n", i * 65536 }' >"$d/list"
increment "$d/session"
SECONDS=0
serve clusters null 64G "delta-extents=$d/list" "delta-session=$d/session"
nbdinfo --size "$(uri_of clusters)"
echo "65536 clusters: $SECONDS s"
((SECONDS < 10))
(($(peak_of "$started") < 64 * 1024))
nbdcopy "$(uri_of clusters)" "$d/wire2"
[[ $(extents "$d/wire2" | awk '{ n += $2 } END { printf "%d %.0f", NR, n }') = \
   "65536 4294967296" ]]
