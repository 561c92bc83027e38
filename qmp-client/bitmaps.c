/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Our dirty bitmaps.  All state is QEMU's.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bitmaps.h"
#include "cleanup.h"
#include "json.h"
#include "log.h"

#define PREFIX "nbdsync-"
#define GRANULARITY_MIN_BYTES UINT64_C (4096)
#define BITMAP_MAX_BYTES (UINT64_C (64) << 20)
#define COPY_UNIT_BYTES 65536   /* of blockdev-backup */

void
chain_tag (const char *chain, char ret[CHAIN8_CHARS + 1])
{
  snprintf (ret, CHAIN8_CHARS + 1, "%.*s", CHAIN8_CHARS, chain);
}

void
bitmap_name (const char *chain, uint64_t generation, uint64_t pass,
             char ret[BITMAP_NAME_MAX])
{
  int n = snprintf (ret, BITMAP_NAME_MAX, PREFIX "%.*s-%" PRIu64,
                    CHAIN8_CHARS, chain, generation);

  if (pass > 0)
    snprintf (ret + n, BITMAP_NAME_MAX - n, "-p%" PRIu64, pass);
}

/* Digits without leading zeroes; moves *p behind them. */
static bool
parse_number (const char **p, uint64_t *ret)
{
  char *end;

  if (**p < '1' || **p > '9') {
    if (**p != '0')
      return false;
    *ret = 0;
    ++*p;
    return true;
  }
  errno = 0;
  *ret = strtoull (*p, &end, 10);
  *p = end;
  return errno == 0;
}

bool
bitmap_parse_name (const char *name, char ret_chain8[CHAIN8_CHARS + 1],
                   uint64_t *ret_generation, uint64_t *ret_pass)
{
  const char *p = name + strlen (PREFIX);
  char chain8[CHAIN8_CHARS + 1];
  uint64_t generation, pass = 0;

  if (strncmp (name, PREFIX, strlen (PREFIX)) != 0 ||
      strspn (p, "0123456789abcdef") != CHAIN8_CHARS)
    return false;
  memcpy (chain8, p, CHAIN8_CHARS);
  chain8[CHAIN8_CHARS] = '\0';
  p += CHAIN8_CHARS;
  if (*p++ != '-' || !parse_number (&p, &generation))
    return false;
  if (*p == '-') {
    if (p[1] != 'p')
      return false;
    p += 2;
    if (!parse_number (&p, &pass) || pass == 0)
      return false;
  }
  if (*p != '\0')
    return false;
  memcpy (ret_chain8, chain8, sizeof chain8);
  *ret_generation = generation;
  *ret_pass = pass;
  return true;
}

uint64_t
bitmap_default_granularity (uint64_t disk_bytes)
{
  uint64_t g = GRANULARITY_MIN_BYTES;

  while (disk_bytes / g / 8 > BITMAP_MAX_BYTES)
    g *= 2;
  return g;
}

static json_t *
add_arguments (const struct disk *disk, const char *name,
               uint64_t granularity)
{
  return json_pack ("{ss, ss, sI, sb}", "node", disk->node, "name", name,
                    "granularity", (json_int_t) granularity,
                    "persistent", disk_can_persist (disk));
}

json_t *
bitmap_add_action (const struct disk *disk, const char *name,
                   uint64_t granularity)
{
  return json_pack ("{ss, so}", "type", "block-dirty-bitmap-add",
                    "data", add_arguments (disk, name, granularity));
}

int
bitmap_add (struct qmp *qmp, const struct disk *disk, const char *name,
            uint64_t granularity)
{
  return qmp_execute (qmp, "block-dirty-bitmap-add",
                      add_arguments (disk, name, granularity), NULL);
}

/* Is there a bitmap of that name on the node?  *ret may be NULL: its dirty
 * bytes.  1, 0, or -1 with a message.
 */
static int
find (struct qmp *qmp, const char *node, const char *name,
      uint64_t *ret_count)
{
  struct disk disk = { .node = (char *) node };
  const struct bitmap *b;
  int found;

  if (disk_refresh_bitmaps (qmp, &disk) == -1)
    return -1;
  b = disk_find_bitmap (&disk, name);
  found = b != NULL;
  if (b && ret_count)
    *ret_count = b->count;
  disk_free_bitmaps (&disk);
  return found;
}

int
bitmap_remove (struct qmp *qmp, const char *node, const char *name)
{
  int found = find (qmp, node, name, NULL);

  if (found != 1)
    return found;
  return qmp_execute (qmp, "block-dirty-bitmap-remove",
                      json_pack ("{ss, ss}", "node", node, "name", name),
                      NULL);
}

int
bitmap_merge (struct qmp *qmp, const char *node, const char *to,
              const char *from_node, const char *from)
{
  return qmp_execute (qmp, "block-dirty-bitmap-merge",
                      json_pack ("{ss, ss, s[{ss, ss}]}", "node", node,
                                 "target", to, "bitmaps", "node", from_node,
                                 "name", from), NULL);
}

int
bitmap_spool_bytes (struct qmp *qmp, const struct disk *disk,
                    const char *name, const char *tag, uint64_t *ret_bytes)
{
  char count_name[BITMAP_NAME_MAX];
  uint64_t bytes = 0;
  int r;

  snprintf (count_name, sizeof count_name, PREFIX "%.*s-count",
            CHAIN8_CHARS, tag);
  if (bitmap_remove (qmp, disk->node, count_name) == -1 ||
      qmp_execute (qmp, "block-dirty-bitmap-add",
                   json_pack ("{ss, ss, si, sb}", "node", disk->node,
                              "name", count_name,
                              "granularity", COPY_UNIT_BYTES,
                              "disabled", 1), NULL) == -1)
    return -1;
  r = bitmap_merge (qmp, disk->node, count_name, disk->node, name);
  if (r == 0 && find (qmp, disk->node, count_name, &bytes) != 1)
    r = -1;
  if (bitmap_remove (qmp, disk->node, count_name) == -1)
    r = -1;
  if (r == 0)
    *ret_bytes = bytes;
  return r;
}
