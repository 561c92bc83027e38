#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Little scratch, and a guest that rewrites far more than it: the guest sees
# no error and is never held up, the sync ends right or fails with one clear
# line and leaves nothing, and the next one works.
. "$(dirname "$0")/sync.sh"

mkdir "$d/mnt1"
requires mount -t tmpfs -o size=16M none "$d/mnt1"
head -c 192M /dev/urandom >"$d/noise"
for disk in a b; do qemu-img create -q -f qcow2 "$d/$disk.qcow2" 256M; done
qemu-io -f qcow2 -c "write -q -s $d/noise 0 192M" "$d/a.qcow2"
rm "$d/noise"
mkdir "$d/begin"
cp "$d/a.qcow2" "$d/b.qcow2" "$d/begin"
source_daemon src a b
daemon=$started
before=$(source_state "$d/src.qmp")

# start_writer OPERATIONS-A-SECOND LOG FIRST-OPERATION
start_writer() {
  start "$builddir/tests/workload" write "$2" "$(disk_uri src a)" \
    "$(disk_uri src b)" "$1" 7 4000000000 "$3"
  writer=$started
  log=$2
  wait_for 30 wrote 3
}
operation() { tail -n 1 "$log" | cut -d' ' -f1; }
wrote() { [[ -s $log ]] && (($(wc -l <"$log") >= $1)); }
scratch=(--scratch "$d/mnt1")
nothing_left() {
  [[ -z $(ls -A "$d/mnt1") ]] || die "left in the scratch: $(ls -R "$d/mnt1")"
  [[ $(source_state "$d/src.qmp" | grep -v "bitmap nbdsync-.*-${1:-0}$") = \
     "$before" ]] || die "left in QEMU: $(source_state "$d/src.qmp")"
}

# A full sync of a disk twelve times as large as the scratch, under writes.
start_writer 1 "$d/log1" 1
do_sync "${scratch[@]}" --scratch-limit 12M --final-limit 12M \
  "qmp:$d/src.qmp" "$d/replica"
expect_kind full
g=$(generation_dir "$d/replica")
stop "$writer"
"$builddir/tests/workload" check --from "$d/begin/a.qcow2" \
  "$d/begin/b.qcow2" "$log" "$g/a.qcow2" "$g/b.qcow2" ||
  die "the full sync is not one instant"
nothing_left 1

# A guest that rewrites all of both disks; scratch that may not suffice, and
# scratch that cannot: more is allowed than there is.
next=$(($(operation) + 1))
start_writer 200 "$d/log2" "$next"
failed=0
for limit in 8M 64M; do
  wait_for 60 wrote $(($(wc -l <"$log") + 300))
  generation=$(readlink "$d/replica/current")
  if ! nbdsync sync "${scratch[@]}" --scratch-limit $limit \
         --final-limit $limit "qmp:$d/src.qmp" "$d/replica" 2>"$d/err"; then
    cat "$d/err"
    failed=$((failed + 1))
    (($(wc -l <"$d/err") == 1)) || die "more than one line"
    grep -Eq 'writes faster|no room|--scratch' "$d/err" ||
      die "it does not say what to do"
    [[ $(readlink "$d/replica/current") = "$generation" ]] ||
      die "a failed sync made a generation"
  fi
  nothing_left "[0-9]*"
done
echo "$failed of 2 failed"
kill -0 "$writer" || die "the guest had an error"
stop "$writer"                  # its own exit status tells of errors
do_sync "qmp:$d/src.qmp" "$d/replica"
expect_kind incremental
stop "$daemon"
for disk in a b; do
  same_content "$d/$disk.qcow2" "$d/replica/current/$disk.qcow2"
done
