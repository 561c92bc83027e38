#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The pipeline by hand, as in the README: nbdkit with delta-send, a mover,
# nbdkit with delta-recv.  Whatever the mover and its options, full and
# increment: what it calls a success that it has flushed is the same disk,
# and what it has not flushed is not called complete.
. "$(dirname "$0")/sync.sh"

cd "$d"

# 300 MiB with data, zeroes that are allocated, and holes.
qemu-img create -q -f qcow2 disk.qcow2 300M
qemu-io -f qcow2 -c "write -q -s $(command -v qemu-img) 3M 1M" \
  -c "write -q -P 0 20M 3M" -c "write -q -P 0x51 130M 9M" \
  -c "write -q -P 0x52 299M 1M" -c "write -q -z 40M 1M" \
  -c "write -q -P 0x53 50M 2k" disk.qcow2
cp disk.qcow2 full.qcow2
qemu-img bitmap --add -g 4k disk.qcow2 b0
qemu-io -f qcow2 -c "write -q -P 0x61 1536 512" -c "write -q -P 0 131M 1M" \
  -c "write -q -z 299M 64k" -c "discard -q 3M 256k" \
  -c "write -q -P 0x62 200M 300k" -c "write -q -P 0x63 3584k 4k" disk.qcow2

serve() {
  start qemu-nbd -r -t -e 0 -f qcow2 -k "$d/$1.nbd" "${@:2}"
  wait_for 10 qemu-img info "nbd+unix:///?socket=$d/$1.nbd"
}
serve full full.qcow2
serve now -B b0 disk.qcow2

# What the two ends are for a full and an increment: arrays from and to.
ends() {
  from=(nbdkit --filter=delta-send nbd)
  to=(nbdkit delta-recv "target=$d/$2")
  case $1 in
    full)
      from+=("socket=$d/full.nbd") ;;
    increment)
      cp -p replica.qcow2 "$2"
      cp replica.qcow2.nbdsync.json "$2.nbdsync.json"
      jq '{chain, base: .generation}' "$2.nbdsync.json" >session.json
      from+=("socket=$d/now.nbd" delta-bitmap=b0
        "delta-session=$d/session.json") ;;
  esac
}

complete() {
  [[ $(jq -r .state "$1.nbdsync.json" 2>/dev/null) = complete ]]
}

# move KIND TARGET MOVER...: SRC and DST in it are the two URIs.
move() {
  local kind=$1 target=$2 i ends_pids=() mover=() rc=0
  shift 2
  ends "$kind" "$target"
  rm -f src dst
  start "${from[@]:0:1}" -f -U "$d/src" "${from[@]:1}"
  ends_pids+=("$started")
  start "${to[@]:0:1}" -f -U "$d/dst" "${to[@]:1}"
  ends_pids+=("$started")
  wait_for 10 test -S src
  wait_for 10 test -S dst
  for i; do
    i=${i/#SRC/nbd+unix:///?socket=$d/src}
    mover+=("${i/#DST/nbd+unix:///?socket=$d/dst}")
  done
  "${mover[@]}" || rc=$?
  for i in "${ends_pids[@]}"; do stop "$i"; done
  return "$rc"
}

# The result is the same disk and says so.
expect_same() {
  local kind=$1 target=$2
  complete "$target" || die "not complete: $(cat "$target.nbdsync.json")"
  case $kind in
    full) same_content full.qcow2 "$target" ;;
    increment) same_content disk.qcow2 "$target" ;;
  esac
}

move full replica.qcow2 nbdcopy --flush SRC DST || die "plain nbdcopy"
expect_same full replica.qcow2

for kind in full increment; do
  while read -r -a options; do
    rm -f t.qcow2*
    move "$kind" t.qcow2 nbdcopy --flush "${options[@]}" SRC DST ||
      die "$kind: nbdcopy ${options[*]}"
    expect_same "$kind" t.qcow2
    echo "$kind: nbdcopy ${options[*]}: same"
  done <<END
--connections=1
--connections=4
--request-size=65536
--request-size=262144
--request-size=4194304
--synchronous
--destination-is-zero
-S 0
--allocated
--connections=4 --request-size=4194304 -S 0 --requests=4
END

  # nbdcopy starts both ends itself.
  rm -f t.qcow2*
  ends "$kind" t.qcow2
  nbdcopy --flush -- [ "${from[@]}" ] [ "${to[@]}" ] || die "[ CMD ]"
  expect_same "$kind" t.qcow2

  # Without --flush nothing is promised: never called complete.
  rm -f t.qcow2*
  move "$kind" t.qcow2 nbdcopy SRC DST || die "nbdcopy without --flush"
  ! complete t.qcow2 || die "complete without a flush"

  # qemu-img flushes with this cache mode; if it cannot do it, it must say so.
  rm -f t.qcow2*
  if move "$kind" t.qcow2 qemu-img convert -n -f raw -O raw -t writeback \
       SRC DST; then
    expect_same "$kind" t.qcow2
    echo "$kind: qemu-img convert: same"
  else
    ! complete t.qcow2 || die "qemu-img failed, but the target is complete"
    echo "$kind: qemu-img convert: refused"
  fi
done
