# SPDX-License-Identifier: BSD-3-Clause
# delta-session: the members arrive in the record; wrong ones are refused.
source "$srcdir/tests/functions.sh"
source "$srcdir/tests/test-delta-send-lib.sh"

truncate -s 1M "$d/disk"
cat >"$d/session" <<'END'
{ "chain": "01234567-89ab-4def-8123-456789abcdef", "base": 4, "target": 5,
  "disk": "vda", "disks": ["vda", "vdb"], "pass": 2, "final": false,
  "source": "host:/a/disk", "started": 1700000000, "cluster_size": 65536,
  "session": "00000000deadBEEF" }
END
dump "$d/wire" file "$d/disk" "delta-session=$d/session"
apply "$d/wire" "$d/out"
diff <(jq -S . "$d/record") <(jq -S 'del(.session) + {
  format: 1, size: 1048576, frames: 1, data_bytes: 0, granularity: 0 }' \
  "$d/session")
[[ $(od -An -tx8 -j16 -N8 "$d/wire") = ' 00000000deadbeef' ]]

# Without a file each start is a session of its own, of a chain of its own.
dump "$d/wire" file "$d/disk"
dump "$d/wire2" file "$d/disk"
[[ $(od -An -tx8 -j16 -N8 "$d/wire") != $(od -An -tx8 -j16 -N8 "$d/wire2") ]]

refuse() {
  echo "$2" >"$d/session"
  refuses "$1" file "$d/disk" "delta-session=$d/session"
}
refuse 'session: unknown member "bass"' '{"bass": 1}'
refuse 'session: unknown member "size"' '{"size": 1}'
refuse 'not a JSON object' '[]'
refuse 'not a JSON object' '{"base": 1,'
refuse 'session: no chain' '{"chain": "x"}'
refuse 'number is none' '{"base": "1"}'
refuse 'not newer than the base' '{"base": 4, "target": 4}'
refuse 'session: no name of a disk' '{"disk": "../vda"}'
refuse 'session: the disk is not among' '{"disk": "a", "disks": ["b"]}'
refuse '16 hexadecimal digits' '{"session": "12"}'
refuses 'gone: No such file' file "$d/disk" "delta-session=$d/gone"

# A plan that is not the whole disk is no full.
echo '0 4096' >"$d/list"
for session in '{}' '{"base": 1}' \
  '{"chain": "01234567-89ab-4def-8123-456789abcdef"}'; do
  echo "$session" >"$d/session"
  refuses 'jq .*chain, base: .generation' file "$d/disk" \
    "delta-session=$d/session" "delta-extents=$d/list"
done
refuses 'an increment needs delta-session' file "$d/disk" \
  "delta-extents=$d/list"
echo '{"chain": "01234567-89ab-4def-8123-456789abcdef", "pass": 2}' \
  >"$d/session"
dump "$d/wire" file "$d/disk" "delta-session=$d/session" \
  "delta-extents=$d/list"
