#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# In the background, in the foreground and without standard streams it works
# the same, and ends everything that it started.
source "$srcdir/tests/test-delta-recv-functions.sh"

truncate -s 4M "$d/disk"
random_at "$d/disk" 0 $((2 << 20))

# with NAME COMMAND...: that way of starting nbdkit.
with() {
  local name=$1 pid
  shift
  wire --disk vda "$d/disk" "$d/wire"
  "$@" nbdkit ${fg-} -P "$d/$name.pid" -U "$d/$name.sock" delta-recv \
    dir="$d/$name"
  wait_for 10 test -s "$d/$name.pid"
  pid=$(cat "$d/$name.pid")
  cleanup_fn kill -9 "$pid"
  nbdcopy --flush "$d/wire" "nbd+unix:///vda?socket=$d/$name.sock"
  same "$d/disk" "$d/$name/current/vda.qcow2"
  kill "$pid"
  wait_for 10 test ! -d "/proc/$pid"
  # Nobody holds its lock any more.
  flock -w 5 "$d/$name/lock" true
}

with background env
fg=-f with foreground start
null() { "$@" </dev/null >/dev/null 2>&1; }
with null null
start_null() { start null "$@"; }
fg=-f with null-foreground start_null

# Relative names are those of the directory where it was started.
cd "$d"
nbdkit -P "$d/rel.pid" -U "$d/rel.sock" delta-recv target=rel.qcow2
wait_for 10 test -s "$d/rel.pid"
wire "$d/disk" "$d/wire"
nbdcopy --flush "$d/wire" "nbd+unix:///?socket=$d/rel.sock"
kill "$(cat "$d/rel.pid")"
same "$d/disk" "$d/rel.qcow2"
