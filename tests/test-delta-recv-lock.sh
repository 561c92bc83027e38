#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One receiver at a time has a replica or an image; a lock can be handed down.
# Wrong parameters are refused by name.
source "$srcdir/tests/test-delta-recv-functions.sh"

no() {
  local text=$1
  shift
  fails 1 "$text" nbdkit -U - delta-recv "$@" --run true
}

start_recv dir="$d/replica"
no "$d/replica: another nbdsync or nbdkit is at work" dir="$d/replica"
stop_recv
nbdkit -U - delta-recv dir="$d/replica" --run true
start_recv target="$d/t.qcow2"
no "$d/t.qcow2: another nbdkit is at work" target="$d/t.qcow2"
stop_recv

# The lock is held by a parent.
(
  exec 7<>"$d/replica/lock"
  flock 7
  no 'another nbdsync or nbdkit' dir="$d/replica"
  nbdkit -U - delta-recv dir="$d/replica" lock-fd=7 --run true
  # It stays the parent's.
  no 'another nbdsync or nbdkit' dir="$d/replica"
)
exec 8<>"$d/other"
no 'descriptor 8 is not this lock' dir="$d/replica" lock-fd=8
no 'descriptor 99 is not this lock' dir="$d/replica" lock-fd=99
exec 9<>"$d/replica/lock" 10<>"$d/replica/lock"
flock 10
no 'descriptor 9 does not hold this lock' dir="$d/replica" lock-fd=9
exec 10>&-

no 'give either target=FILE or dir=DIR'
no 'give either target=FILE or dir=DIR' dir="$d/a" target="$d/b"
no 'format must be qcow2 or raw' target="$d/b" format=vmdk
no 'format: only with target=' dir="$d/a" format=raw
no 'buffer must be at least 1M' dir="$d/a" buffer=1000
no 'depth must be between 1' dir="$d/a" depth=0
no "unknown parameter 'resume'" dir="$d/a" resume=1
no 'lock-fd: only with dir=' target="$d/b" lock-fd=8
no "$d: neither a file nor a block device" target="$d"
no "$d/none/replica: No such file" dir="$d/none/replica"
touch "$d/file"
no "$d/file" dir="$d/file"
if [[ $(id -u) = 0 ]] && chattr +i "$d/replica" 2>/dev/null; then
  cleanup_fn chattr -i "$d/replica"
  mkdir "$d/ro"
  chattr +i "$d/ro"
  cleanup_fn chattr -i "$d/ro"
  no "$d/ro" dir="$d/ro"
fi

# What is made is private.
[[ $(stat -c %a "$d/replica") = 700 ]]
[[ $(stat -c %a "$d/replica/lock") = 600 ]]

# Every parameter is in the manual.
for key in target dir format buffer depth lock-fd; do
  grep -q "^=item B<$key=" "$srcdir/docs/nbdkit-delta-recv-plugin.1.pod" ||
    die "$key is not in the manual"
done
