#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The commands in the manual of the plugin do what it says of them.
source "$srcdir/tests/test-delta-recv-functions.sh"

# example N: the N-th indented block of the section.
example() {
  sed -n '/^=head1 EXAMPLES/,/^=head1 PARAMETERS/p' \
    "$srcdir/docs/nbdkit-delta-recv-plugin.1.pod" |
    awk -v n="$1" '/^ / { if (!in_block) { k++; in_block = 1 }
                          if (k == n) print; next } { in_block = 0 }' |
    sed "s|/run/replica.sock|$d/replica.sock|; s|/srv/replica|$d/replica|"
}
truncate -s 4M "$d/disk"
random_at "$d/disk" 0 $((2 << 20))
wire --disk vda "$d/disk" "$d/wire"
export source=$d/wire
cd "$d"

eval "$(example 1)"
same "$d/disk" "$d/replica.qcow2"
rm "$d"/replica.qcow2*
eval "$(example 2)"
same "$d/disk" "$d/replica.qcow2"
# The server goes to the background.
eval "$(example 3 | sed 's/^ nbdkit/ nbdkit -P "$d\/pid"/')"
cleanup_fn kill "$(cat "$d/pid")"
same "$d/disk" "$d/replica/current/vda.qcow2"

requires jq --version
[[ $(eval "$(example 4)" | jq -s 'map(.base) == [1, 1]') = true ]]
