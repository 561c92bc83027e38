#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every option of the command, and every parameter that the filter and the
# plugin take, is in its manual page.
. "$(dirname "$0")/functions.sh"

# documented PAGE WORD...: each starts an item or is in bold or code there.
documented() {
  local page=$srcdir/docs/$1.pod word
  shift
  (($#)) || die "nothing to look for in $page"
  for word; do
    grep -Eq -- "[BCI]<+ ?$word([= >\[]|\$)|^=item .*$word" "$page" ||
      die "$page does not have $word"
  done
  echo "${page##*/}: $*"
}

# Keys are compared with strcmp (key, "...") in a .config callback.
keys() {
  grep -hoE 'strcmp \(key, "[a-z-]+"' "$@" | sed 's/.*"\(.*\)"/\1/' | sort -u
}

# shellcheck disable=SC2046
{
  documented nbdkit-delta-send-filter.1 \
    $(keys "$srcdir"/nbdkit-filter/delta-send.c "$srcdir"/nbdkit-filter/*.c)
  documented nbdkit-delta-recv-plugin.1 $(keys "$srcdir"/receiver/*.c)
  documented nbdsync.1 $(nbdsync --help | grep -oE -- '--[a-z-]+' | sort -u)
  # getopt_long's tables, whatever --help says.
  documented nbdsync.1 $(grep -hoE '\{ "[a-z-]+", (no|required|optional)_argument' \
    "$srcdir"/nbdsync/*.c | sed 's/.*"\(.*\)".*/--\1/' | sort -u)
}
