# SPDX-License-Identifier: BSD-3-Clause
# A client that is killed in the middle harms nobody: the next one gets all.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

random_disk "$d/disk" $((60 << 20))
# One thread per connection: nbdkit 1.32 aborts when a client goes with
# replies under way, filter or not.
serve killed -t 1 --filter=delay file "$d/disk" rdelay=20ms \
  delta-batch=1M delta-buffer=10M "delta-stats=$d/stats"
server=$started
uri=$(uri_of killed)

some_sent() { (($(stat_of "$d/stats" sent_bytes) > 1000000)); }
for i in 1 2; do
  start nbdcopy "$uri" "$d/wire$i"
  if ((i == 1)); then wait_for 20 some_sent; fi
  kill -9 "$started"
  wait "$started" || true
done
kill -0 "$server"
nbdcopy "$uri" "$d/wire"
apply "$d/wire" "$d/out"
cmp "$d/disk" "$d/out"
