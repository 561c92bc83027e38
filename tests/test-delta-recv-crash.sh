#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Wherever a commit is cut, the replica is the old moment or the new one when
# it is opened next; and no number is given out twice.
source "$srcdir/tests/test-delta-recv-functions.sh"

chain=11111111-2222-3333-4444-555555555555
truncate -s 4M "$d/disk.1"
random_at "$d/disk.1" 0 $((2 << 20))
cp "$d/disk.1" "$d/disk.2"
random_at "$d/disk.2" 65536 65536
echo "65536 65536 data" >"$d/plan"
wire --disk vda --chain $chain "$d/disk.1" "$d/wire.1"
wire --disk vda --chain $chain --base 1 --extents "$d/plan" "$d/disk.2" \
  "$d/wire.2"
start_recv dir="$d/whole"
send "$d/wire.1" vda
send "$d/wire.2" vda
stop_recv
[[ $(readlink "$d/whole/current") = generations/000002 ]]

# settled N: opened again, the replica is generation N, exactly.
settled() {
  nbdkit -U - delta-recv dir="$d/r" --run true
  [[ $(readlink "$d/r/current") = generations/00000$1 ]] ||
    die "not generation $1"
  same "$d/disk.$1" "$d/r/current/vda.qcow2"
}
fresh() {
  rm -rf "$d/r"
  cp -a "$d/whole" "$d/r"
}
back() { ln -sfn generations/000001 "$d/r/current"; }

# Between the two renames: the new one, rolled forward.
fresh
back
ln -s generations/000002 "$d/r/current.tmp"
settled 2
# Before the first: the old one, also with a manifest already there.
fresh
back
mv "$d/r/generations/000002" "$d/r/generations/incoming"
echo '{"session":"0000000000000001","target":2,"base":1,"opened":1}' \
  >"$d/r/generations/incoming/session.json"
settled 1
# Renamed, and yet not whole: it is incoming again.
fresh
back
rm "$d/r/generations/000002/manifest.json"
settled 1
[[ -e $d/r/generations/incoming/vda.qcow2 ]]
# An older number is never rolled forward.
fresh
back
echo '{"last": 3}' >"$d/r/generations/last.json"
settled 1

# The next session is right in any of these, and its number is new.
start_recv dir="$d/r"
echo "65536 65536 data" >"$d/plan"
wire --disk vda --chain $chain --base 1 --extents "$d/plan" "$d/disk.2" \
  "$d/wire.2"
send "$d/wire.2" vda
[[ $(readlink "$d/r/current") = generations/000004 ]]
same "$d/disk.2" "$d/r/current/vda.qcow2"
stop_recv
rm "$d/r/generations/last.json"

# The receiver is killed in the middle of a stream.
start_recv dir="$d/r"
wire --disk vda --chain $chain --batch 1048576 "$d/disk.1" "$d/wire.1"
start client vda "slot:$d/wire.1:0" "slot:$d/wire.1:1" "touch:$d/begun" \
  "wait:$d/end"
wait_for 10 test -e "$d/begun"
kill -9 "$recv"
wait "$recv" || true
touch "$d/end"
[[ $(readlink "$d/r/current") = generations/000004 ]]
same "$d/disk.2" "$d/r/current/vda.qcow2"
start_recv dir="$d/r"
send "$d/wire.1" vda             # the same session goes on, from its start
[[ $(readlink "$d/r/current") = generations/000005 ]]
same "$d/disk.1" "$d/r/current/vda.qcow2"
stop_recv

# What is no replica's own is not believed.
broken() {
  fails 1 "$1" nbdkit -U - delta-recv dir="$d/r" --run true
}
fresh
ln -sfn /etc "$d/r/current"
broken 'points to no generation'
fresh
ln -sfn generations/../../x "$d/r/current"
broken 'points to no generation'
fresh
sed -i 's/"generation": 2/"generation": 3/' \
  "$d/r/generations/000002/manifest.json"
broken 'of another generation than its directory'
fresh
sed -i 's/"vda"/"..\/vda"/' "$d/r/generations/000002/manifest.json"
broken 'name that is not allowed'
fresh
head -c 2M /dev/zero >"$d/r/generations/000002/manifest.json"
broken 'not a file of at most'
