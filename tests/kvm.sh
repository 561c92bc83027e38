# SPDX-License-Identifier: BSD-3-Clause
# A guest that writes to two disks for ever (guest/writer.s), under KVM, or
# without it where there is none; sourced by its tests.
. "$(dirname "${BASH_SOURCE[0]}")/sync.sh"

# start_guest [iothread]: two virtio-blk disks, with an iothread each or not.
# Monitors $d/vm.qmp and, for its user, $d/vm.user and $d/vm.user2; debug
# console $d/console.  Sets $started.
start_guest() {
  local i args=()
  as --32 -o "$d/writer.o" "$srcdir/tests/guest/writer.s"
  ld -m elf_i386 -Ttext 0x7c00 --oformat binary -o "$d/writer.bin" \
    "$d/writer.o"
  for i in a b; do
    qemu-img create -q -f qcow2 "$d/$i.qcow2" 132M
    args+=(-blockdev
      "qcow2,node-name=$i,discard=unmap,file.driver=file,file.filename=$d/$i.qcow2")
    if [[ ${1:-} = iothread ]]; then
      args+=(-object "iothread,id=io-$i"
        -device "virtio-blk-pci,drive=$i,id=vd$i,iothread=io-$i")
    else
      args+=(-device "virtio-blk-pci,drive=$i,id=vd$i")
    fi
  done
  qemu-io -f qcow2 -c "write -q -s $d/writer.bin 0 512" "$d/a.qcow2"
  start qemu-system-x86_64 -accel kvm -accel tcg -m 32 -nodefaults \
    -display none -qmp "unix:$d/vm.qmp,server=on,wait=off" \
    -qmp "unix:$d/vm.user,server=on,wait=off" \
    -qmp "unix:$d/vm.user2,server=on,wait=off" \
    -debugcon "file:$d/console" "${args[@]}"
  wait_for 10 qmp "$d/vm.qmp" query-status
}

# Rounds of writes that the guest has done; errors that it has seen.
# (A gap's byte that happens to be a W counts as a round: never mind.)
guest_rounds() { tr -cd W <"$d/console" | wc -c; }
guest_wrote() { (($(guest_rounds) >= $1)); }

# Errors and the longest gap between two rounds, in units of 2^24 ticks of
# the TSC.
guest_report() {
  python3 - "$d/console" <<'END'
import sys
text = open(sys.argv[1], 'rb').read()
errors = longest = 0
i = text.find(b'W')             # what is before the first is no gap
while i < len(text):
    if text[i:i + 1] == b'G' and i + 1 < len(text):
        longest = max(longest, text[i + 1])
        i += 2                  # the gap's byte is no letter
        continue
    errors += text[i:i + 1] == b'E'
    i += 1
print(errors, longest)
END
}

# guest_survives: once the guest is started, it survives many syncs, and each
# of them is an instant of it.  Without KVM all is slower and 20 will do: a
# full and increments, each by spool and by precopy.
guest_survives() {
  local syncs=50 n rounds options g images=() errors longest mhz hold=0
  local guest=$started
  [[ -w /dev/kvm ]] || syncs=20
  wait_for 30 guest_wrote 20
  for ((n = 1; n <= syncs; n++)); do
    options=()
    ((n % 10 != 1)) || options+=(--full)
    ((n % 5 != 3)) || options+=(--scratch-limit 0)
    ((n % 20 != 11)) || options+=(--scratch-limit 0)
    rounds=$(guest_rounds)
    do_sync "${options[@]}" "qmp:$d/vm.qmp" "$d/replica"
    (($(result .hold_ms) <= hold)) || hold=$(result .hold_ms)
    g=$(generation_dir "$d/replica")
    images+=("$g/vda.qcow2" "$g/vdb.qcow2")
    wait_for 20 guest_wrote $((rounds + 5))
    kill -0 "$guest" || die "the guest's QEMU is gone after sync $n"
  done
  [[ $(qmp "$d/vm.qmp" query-status | jq -r .status) = running ]] ||
    die "the guest does not run"
  read -r errors longest < <(guest_report)
  mhz=$(sed -n 's/^cpu MHz[^:]*: *\([0-9]*\).*/\1/p' /proc/cpuinfo | head -1)
  echo "$(guest_rounds) rounds, errors: $errors, longest gap:" \
    "$((longest * 16777 / mhz)) ms, longest flush or transaction $hold ms"
  ((errors == 0)) || die "the guest saw errors"
  ((longest < 255)) || die "the guest stood still"
  # Not asked to: with iothreads and without KVM QEMU 7.2 may hang at its end.
  kill -9 "$guest"
  wait "$guest" || true
  "$srcdir/tests/guest/replay.py" "${images[@]}" ||
    die "a generation is not one instant of the guest"
}
