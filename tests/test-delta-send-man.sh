# SPDX-License-Identifier: BSD-3-Clause
# The manual page and the help name every parameter, and no other.
source "$srcdir/tests/functions.sh"

pod=$srcdir/docs/nbdkit-delta-send-filter.1.pod
grep -o '"delta-[a-z-]*"' "$srcdir/nbdkit-filter/delta-send.c" |
  tr -d '"' | grep -v -x delta-send | sort -u >"$d/keys"
[[ $(wc -l <"$d/keys") -ge 12 ]]
grep -o '^=item B<delta-[a-z-]*' "$pod" | sed 's/.*<//' | sort -u |
  diff "$d/keys" -
nbdkit --filter=delta-send null --help | grep -o '^delta-[a-z-]*' |
  sort -u | diff "$d/keys" -
podchecker "$pod"
