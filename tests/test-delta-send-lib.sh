# SPDX-License-Identifier: BSD-3-Clause
# What the tests of delta-send share; source it after functions.sh.

# serve NAME ARGS...: nbdkit with the filter on $d/NAME.sock; sets $started.
serve() {
  local name=$1
  shift
  start nbdkit -f -U "$d/$name.sock" --filter=delta-send "$@"
  wait_for 20 test -S "$d/$name.sock"
}
uri_of() { echo "nbd+unix:///?socket=$d/$1.sock"; }

# dump WIRE ARGS...: copy the wire export of the filter over ARGS to a file.
dump() {
  local wire=$1
  shift
  nbdkit -U - --filter=delta-send "$@" --run "nbdcopy \"\$uri\" '$wire'"
}

# refuses TEXT ARGS...: nbdkit does not start, and says TEXT.
refuses() {
  local text=$1
  shift
  rm -f "$d/refuses.sock"
  fails 1 "$text" timeout 20 \
    nbdkit -f -U "$d/refuses.sock" --filter=delta-send "$@"
}

# apply WIRE OUT: apply a dump to a raw image; the session record is in
# $d/record.
apply() { "$builddir/tests/wire-apply" "$1" "$2" >"$d/record"; }

# extents WIRE: the extents in a dump, one a line.
extents() { "$builddir/tests/wire-apply" -e "$1"; }

# increment FILE: a session file for a plan that is not the whole disk.
increment() {
  echo '{"chain": "11111111-2222-4333-8444-555555555555", "base": 1}' >"$1"
}

# A statistic of a file of delta-stats.
stat_of() { jq ".$2" "$1"; }

# The peak of the memory of a process, in KiB.
peak_of() { awk '/VmHWM/ { print $2 }' "/proc/$1/status"; }

# random_disk FILE SIZE: data that zstd can shrink and data that it cannot,
# and holes.
random_disk() {
  python3 - "$1" "$2" <<'END'
import random, sys
random.seed(7)
size = int(sys.argv[2])
with open(sys.argv[1], 'wb') as f:
    f.truncate(size)
    done = 0
    while done < size // 3:
        n = random.randrange(512, 300000)
        at = random.randrange(0, max(1, size - n))
        f.seek(at)
        f.write(random.randbytes(n // 2) + b'nbdsync ' * (n // 16))
        done += n
    f.truncate(size)
END
}
