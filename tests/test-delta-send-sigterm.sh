# SPDX-License-Identifier: BSD-3-Clause
# SIGTERM while requests wait for frames: nbdkit ends at once, not when the
# frames are built.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

# Each read takes a second, so a frame takes eight.
serve term eval get_size='echo 64M' thread_model='echo parallel' \
  pread='sleep 1; dd if=/dev/zero bs=$3 count=1 status=none' \
  delta-batch=8M "delta-stats=$d/stats" delta-threads=2
waits() { (($(stat_of "$d/stats" reader_waits) > 0)); }
server=$started
start nbdcopy "$(uri_of term)" "$d/wire"
wait_for 10 waits
now=$(date +%s%N)
kill "$server"
wait "$server"
ms=$((($(date +%s%N) - now) / 1000000))
echo "ended after $ms ms"
# The reads under way end, the frames are not finished.
((ms < 6000))
# And the statistics were written to the end.
[[ $(stat_of "$d/stats" frames) = 8 ]]
