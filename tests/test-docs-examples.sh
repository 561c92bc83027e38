#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The examples of README.md do what they say.  A block of code is run if the
# line before it is <!-- tested -->; all of them are one script, run in an
# empty directory, which must succeed.
. "$(dirname "$0")/functions.sh"

awk '
  /^```/ && inside { inside = 0; next }
  /^```/ && marked { inside = 1; marked = 0; next }
  inside { print; next }
  /^<!-- tested -->$/ { marked = 1; next }
  { marked = 0 }
' "$srcdir/README.md" >"$d/examples"
[[ -s $d/examples ]] || die "README.md has no block that is marked as tested"
cat "$d/examples"

mkdir "$d/work"
cd "$d/work"
# What the examples leave running ends with them.
cleanup_fn rm -rf "$d/work"
trap_jobs='trap '\''kill $(jobs -p) 2>/dev/null; wait'\'' EXIT'
bash -euo pipefail -c "$trap_jobs; $(cat "$d/examples")" </dev/null
