/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Full, incremental or unchanged.  A bitmap is believed only if it is of
 * our chain, of the replica's generation or one that this is built on, and
 * has been recording since; any doubt means a full sync of that disk alone,
 * with the reason.  Pure; tests/test-decide.c has the table.
 */
#include <config.h>

#include "decide.h"

/* A bitmap that can be believed. */
static struct decision
decide_by_bitmap (const struct situation *s)
{
  enum kind kind = KIND_INCREMENTAL;
  const char *reason;

  if ((s->older || s->below) && !s->readable) {
    kind = KIND_FULL;
    reason = "its bitmap is below a snapshot or of an older generation, and "
      "what else would be needed cannot be read from outside QEMU";
  }
  else if (s->older)
    reason = "its bitmap of an older generation, and what the replica has "
      "over that, tell what may differ";
  else if (s->below)
    reason = "a snapshot was taken: its bitmap below, and what the images "
      "above hold, tell what changed";
  else if (s->dirty_bytes > 0)
    reason = "its bitmap tells what changed since the replica's generation";
  else {
    kind = KIND_UNCHANGED;
    reason = "nothing was written since the replica's generation";
  }
  return (struct decision) { .kind = kind, .reason = reason };
}

struct decision
decide (const struct situation *s)
{
  const char *reason;

  if (s->generation == 0)
    reason = "there is no replica yet";
  else if (!s->known)
    reason = "the replica does not have this disk yet";
  else if (s->force_full)
    reason = "--full was given";
  else if (s->size != s->replica_size)
    reason = s->size > s->replica_size ?
      "the disk has grown: it is larger than in the replica" :
      "the disk has been shrunk: it is smaller than in the replica";
  else if (s->copied)
    reason = "the replica is a copy, or was moved to another file system: the "
      "bitmaps may be the other copy's";
  else if (s->forked)
    reason = "the replica is older than what the source remembers: one of "
      "them was restored, or there is another copy of the replica";
  else
    switch (s->bitmap) {
    case BITMAP_INCONSISTENT:
      reason = "its bitmap is inconsistent: QEMU was killed while it "
        "recorded";
      break;
    case BITMAP_DISABLED:
      reason = "its bitmap was disabled by somebody else and missed writes";
      break;
    case BITMAP_GOOD:
      return decide_by_bitmap (s);
    default:
      reason = s->can_persist ?
        "it has no bitmap of the replica's generation" :
        "its format cannot keep a bitmap when QEMU ends";
    }
  return (struct decision) { .kind = KIND_FULL, .reason = reason };
}

const char *
kind_name (enum kind kind)
{
  static const char *const names[] = {
    [KIND_UNCHANGED] = "unchanged",
    [KIND_INCREMENTAL] = "incremental",
    [KIND_FULL] = "full",
  };
  return names[kind];
}
