/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A bitmap is believed only if it is on the node that is written, itself:
 * QEMU's NBD server, asked for a bitmap by name, also takes one from below
 * the node, which is frozen there and misses all writes since a snapshot
 * was made.  It must record, for else it has missed what was written while
 * it did not; and an inconsistent one says nothing.  That the count in
 * QEMU is the count that came over NBD proves that both are one bitmap.
 *
 * A recording bitmap may grow while it is read, so the count is taken
 * before and after, and NBD's must be between the two.
 *
 * No state, one thread.
 */
#include <config.h>

#include <inttypes.h>
#include <string.h>

#include "bitmap-check.h"
#include "json.h"
#include "log.h"

static json_t *
find_bitmap (const json_t *node, const char *name)
{
  json_t *list = json_object_get (node, "dirty-bitmaps"), *b;
  size_t i;

  json_array_foreach (list, i, b) {
    const char *n = json_get_string (b, "name");

    if (n && strcmp (n, name) == 0)
      return b;
  }
  return NULL;
}

/* The bitmap on the node itself, borrowed; NULL with a message. */
static json_t *
find_on_node (const json_t *nodes, const char *node_name, const char *bitmap)
{
  json_t *node, *found = NULL;
  const char *elsewhere = NULL;
  size_t i;

  json_array_foreach (nodes, i, node) {
    const char *name = json_get_string (node, "node-name");

    if (!name)
      continue;
    if (strcmp (name, node_name) == 0)
      found = node;
    else if (find_bitmap (node, bitmap))
      elsewhere = name;
  }
  if (!found) {
    log_error ("delta-node: QEMU has no node \"%s\"", node_name);
    return NULL;
  }
  node = found;
  found = find_bitmap (node, bitmap);
  if (!found && elsewhere)
    log_error ("bitmap \"%s\" is not on node \"%s\" itself but on \"%s\": it "
               "may have missed writes", bitmap, node_name, elsewhere);
  else if (!found)
    log_error ("node \"%s\" has no bitmap \"%s\"", node_name, bitmap);
  return found;
}

int
bitmap_check_state (struct qmp *qmp, const char *node, const char *bitmap,
                    struct bitmap_state *ret)
{
  CLEANUP_JSON json_t *nodes = NULL;
  struct bitmap_state state;
  bool recording, inconsistent = false;
  json_t *b;

  if (qmp_execute (qmp, "query-named-block-nodes",
                   json_pack ("{s:b}", "flat", 1), &nodes) == -1)
    return -1;
  b = find_on_node (nodes, node, bitmap);
  if (!b)
    return -1;
  if (json_get_u64 (b, "count", &state.count) == -1 ||
      json_get_u64 (b, "granularity", &state.granularity) == -1 ||
      state.granularity == 0 ||
      json_get_bool (b, "recording", &recording) == -1) {
    log_error ("bitmap \"%s\" on node \"%s\": QEMU does not say its state",
               bitmap, node);
    return -1;
  }
  json_get_bool (b, "inconsistent", &inconsistent);
  if (inconsistent) {
    log_error ("bitmap \"%s\" on node \"%s\" is inconsistent: QEMU did not "
               "end cleanly; it cannot be used", bitmap, node);
    return -1;
  }
  if (!recording) {
    log_error ("bitmap \"%s\" on node \"%s\" is disabled: it may have missed "
               "writes", bitmap, node);
    return -1;
  }
  *ret = state;
  return 0;
}

int
bitmap_check_count (const char *bitmap, uint64_t dirty_bytes,
                    bool dirty_at_end, uint64_t size,
                    const struct bitmap_state *before,
                    const struct bitmap_state *after)
{
  uint64_t granularity = before->granularity;

  /* The last granule may reach beyond the end; QEMU counts all of it. */
  if (dirty_at_end && size % granularity != 0)
    dirty_bytes += granularity - size % granularity;
  if (dirty_bytes < before->count || dirty_bytes > after->count ||
      after->granularity != granularity) {
    log_error ("bitmap \"%s\": %" PRIu64 " bytes are dirty in QEMU but %"
               PRIu64 " over NBD: not the same bitmap", bitmap,
               before->count, dirty_bytes);
    return -1;
  }
  return 0;
}
