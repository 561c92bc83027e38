#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A part of the crash tests, see tests/crash/run: each fault point once, the
# deaths rotated by $NBDSYNC_CRASH_SEED.  The directories of scenarios that
# failed are kept.
. "$(dirname "$0")/functions.sh"

part=${0##*-}
requires command -v qemu-system-x86_64
python3 "$srcdir/tests/crash/run" --part "${part%.sh}/4" -j 1 \
  --seed "${NBDSYNC_CRASH_SEED:-1}"
