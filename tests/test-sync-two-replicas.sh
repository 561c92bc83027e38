#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two replicas of one machine and another tool's bitmap: 20 syncs in turn
# under constant writes, spools and precopies.  Every generation of either
# replica is one instant, made of increments; the foreign bitmap's count never
# falls, and it records all the time.
. "$(dirname "$0")/sync.sh"

SYNCS=20
OPS_A_SECOND=100

for disk in a b; do
  qemu-img create -q -f qcow2 "$d/$disk.qcow2" 128M
done
source_daemon src a b
daemon=$started
for disk in a b; do
  qmp "$d/src.user" block-dirty-bitmap-add \
    "{\"node\": \"$disk\", \"name\": \"theirs\", \"granularity\": 4096}"
done
start python3 "$srcdir/tests/qmp-watch.py" "$d/src.user" theirs >"$d/watch"
watch=$started
start "$builddir/tests/workload" write "$d/log" \
  "$(disk_uri src a)" "$(disk_uri src b)" $OPS_A_SECOND 11
writer=$started

operation() { tail -n 1 "$d/log" | cut -d' ' -f1; }
reached() { (($(operation) >= $1)); }

wait_for 60 reached 100
images=() earliest=()
for ((n = 1; n <= SYNCS; n++)); do
  replica=$d/replica$((n % 2))
  options=()
  ((n % 5 >= 2)) || options+=(--scratch-limit 0)
  last=$(operation)
  earliest+=("$last")
  do_sync "${options[@]}" "qmp:$d/src.qmp" "$replica"
  if ((n <= 2)); then expect_kind full; else expect_kind incremental; fi
  g=$(generation_dir "$replica")
  images+=("$g/a.qcow2" "$g/b.qcow2")
  wait_for 60 reached $((last + 10))
done
stop "$writer"

# Both are what the machine is, when it is quiet.
for replica in "$d/replica0" "$d/replica1"; do
  do_sync "qmp:$d/src.qmp" "$replica"
  for disk in a b; do
    same_content "$(disk_uri src $disk)" "$replica/current/$disk.qcow2"
  done
done

# One bitmap for each disk and replica, besides the foreign ones.
for disk in a b; do
  [[ $(qmp "$d/src.qmp" query-named-block-nodes |
         jq "[.[] | select(.\"node-name\" == \"$disk\") |
              .\"dirty-bitmaps\"[] | .name] | length") = 3 ]] ||
    die "not three bitmaps: $(source_state "$d/src.qmp")"
done
stop "$watch"
stop "$daemon"
awk '$1 == "gone" || $1 == "bitmap" && ($3 < count[$2] ||
       $4 != "recording") { print "not so: " $0; bad = 1 }
     $1 == "bitmap" { seen[$2]++; count[$2] = $3 }
     END { for (node in seen) print node, seen[node], count[node]
           exit bad || seen["a"] < 20 || seen["b"] < 20 }' "$d/watch" ||
  die "the foreign bitmap was touched"

"$builddir/tests/workload" check "$d/log" "${images[@]}" |
  tee "$d/instants" || die "a generation is not one instant"
n=0
while read -r _ _ instant; do
  ((instant + 1 >= earliest[n])) ||
    die "sync $((n + 1)) gave instant $instant, before it began"
  n=$((n + 1))
done <"$d/instants"
((n == SYNCS)) || die "$n generations were checked"
