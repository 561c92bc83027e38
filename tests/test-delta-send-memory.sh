# SPDX-License-Identifier: BSD-3-Clause
# Peak memory on an 8 GiB disk of data, with delta-buffer=64M: 128 MiB at
# most.  Most of the disk is easy to compress and one part is not, so that
# frames of all lengths come and go.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"
requires test -z "${NBDSYNC_VALGRIND-}"
requires sh -c '! grep -q asan "$0"' "$builddir/run.d/nbdkit"

serve memory pattern 8G delta-buffer=64M "delta-stats=$d/stats"
nbdcopy "$(uri_of memory)" null:
hwm=$(peak_of "$started")
echo "pattern: $hwm KiB"
((hwm <= 131072))
[[ $(stat_of "$d/stats" disk_bytes_sent) = 8589934592 ]]

serve memory2 random 1G delta-buffer=64M
nbdcopy "$(uri_of memory2)" null:
hwm=$(peak_of "$started")
echo "random: $hwm KiB"
((hwm <= 131072))
