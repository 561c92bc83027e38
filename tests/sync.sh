# SPDX-License-Identifier: BSD-3-Clause
# What the end-to-end tests share; sourced by them.
. "$(dirname "${BASH_SOURCE[0]}")/functions.sh"

# do_sync ARGS...: nbdsync sync; its JSON is in $d/result.json.
do_sync() {
  nbdsync sync --json "$@" >"$d/result.json" || {
    cat "$d/result.json" >&2
    die "nbdsync sync $* failed"
  }
}

# result FILTER: of the last sync (a jq filter; null is an empty line).
result() { jq -r "($1) // empty" "$d/result.json"; }

# Every disk of the last sync was of this kind.
expect_kind() {
  [[ $(result '[.disks[].kind] | unique | join(" ")') = "$1" ]] ||
    die "not $1: $(jq -c '.disks[] | [.name, .kind, .reason]' \
                     "$d/result.json")"
}

# generation_dir DIR: of the generation that the last sync made.
generation_dir() {
  printf '%s/generations/%06d' "$1" "$(result .generation)"
}

# source_daemon NAME DISK...: a storage daemon with its monitor at
# $d/NAME.qmp that serves $d/DISK.qcow2 at the node and export DISK of
# $d/NAME.nbd.  Sets $started.
source_daemon() {
  local name=$1 disk args=()
  shift
  for disk; do
    args+=(
      --blockdev "qcow2,node-name=$disk,discard=unmap,file.driver=file,file.filename=$d/$disk.qcow2"
      --export "nbd,id=e-$disk,node-name=$disk,name=$disk,writable=on")
  done
  start_qsd "$name" --nbd-server "addr.type=unix,addr.path=$d/$name.nbd" \
    "${args[@]}"
}

# The URI of a disk of source_daemon.
disk_uri() { echo "nbd+unix:///$2?socket=$d/$1.nbd"; }

# disk_io NAME DISK COMMAND...: qemu-io commands, as a guest's writes.
disk_io() {
  local uri command args=()
  uri=$(disk_uri "$1" "$2")
  shift 2
  for command; do args+=(-c "$command"); done
  qemu-io -f raw "${args[@]}" "$uri" >"$d/qemu-io.out" || {
    cat "$d/qemu-io.out"
    die "qemu-io $uri"
  }
}

# End a process that was started, as it is meant to be ended.
stop() {
  kill "$1"
  wait "$1" || true
}

# What is left in a source's QEMU that was not there before: bitmaps, jobs
# and nodes, one a line, numbers left out.
source_state() {
  {
    qmp "$1" query-named-block-nodes |
      jq -r '.[] | "node \(."node-name")",
                   (."dirty-bitmaps"[]? | "bitmap \(.name)")'
    qmp "$1" query-jobs | jq -r '.[] | "job \(.id)"'
    qmp "$1" query-block-exports | jq -r '.[] | "export \(.id)"'
  } | grep -v 'node #block' | sort
}
