# SPDX-License-Identifier: BSD-3-Clause
# A full pass over the file plugin: whatever the mover and however it reads,
# the dump of the export applies to the same disk.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

random_disk "$d/disk" $((150 << 20))
serve full file "$d/disk"
uri=$(uri_of full)

check() {
  rm -f "$d/out"
  apply "$d/wire" "$d/out"
  cmp "$d/disk" "$d/out"
}

for how in --connections=1 --connections=4 --request-size=65536 \
           --request-size=4194304 --synchronous --allocated "-S 0"; do
  rm -f "$d/wire"
  # shellcheck disable=SC2086
  nbdcopy $how "$uri" "$d/wire"
  check
done

rm -f "$d/wire"
qemu-img convert -f raw -O raw "$uri" "$d/wire"
check

# The record says what it should.
[[ $(jq -c '[.format, .base, .target, .disk, .disks, .size, .pass, .final]' \
     "$d/record") = '[1,0,0,"disk",["disk"],157286400,1,true]' ]]
