/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Making the plan.  The ranges of the map are walked in order together
 * with the source's extents (base:allocation): what is in the map and zero
 * at the source becomes "zero this range" and is never read.  The source
 * is asked for windows: as much as the map has within a stretch of the
 * disk, but not across wide gaps of the map, for the status of much of a
 * disk can cost more than reading the little that is dirty.
 *
 * One thread, in after_fork; no locks.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "log.h"
#include "planner.h"

#define WINDOW_BYTES (UINT64_C (1) << 30) /* asked of the source at once */
#define GAP_BYTES (UINT64_C (16) << 20)   /* of the map, asked across */

/* What the source last said: its extents, and where we are in them. */
struct allocation {
  nbdkit_next *next;
  uint64_t size;
  struct nbdkit_extents *extents;
  size_t at;
};

static int
ask (struct allocation *a, uint64_t offset, uint64_t count)
{
  int err = 0;

  nbdkit_extents_free (a->extents);
  a->at = 0;
  /* To the end of the disk, to get what the source knows beyond count. */
  a->extents = nbdkit_extents_new (offset, a->size);
  if (!a->extents)
    return -1;
  if (a->next->extents (a->next, count, offset, 0, a->extents, &err) == -1) {
    log_error ("extents of the source at %" PRIu64 ": %s", offset,
               strerror (err));
    return -1;
  }
  return 0;
}

/* Find the extent with 'offset' in it, which is not before that of the
 * last call; false if the source has not told of it yet.
 */
static bool
find (struct allocation *a, uint64_t offset, struct nbdkit_extent *ret)
{
  if (!a->extents)
    return false;
  for (; a->at < nbdkit_extents_count (a->extents); a->at++) {
    *ret = nbdkit_get_extent (a->extents, a->at);
    if (offset < ret->offset + ret->length)
      return offset >= ret->offset;
  }
  return false;
}

/* How far the status is wanted from 'offset' on, which is in 'run'. */
static uint64_t
window (const struct runs *map, struct run_pos pos, const struct run *run,
        uint64_t offset)
{
  uint64_t end = run->offset + run->length;
  struct run ahead;

  while (map && end - offset < WINDOW_BYTES &&
         runs_next (map, &pos, &ahead) && ahead.offset - end <= GAP_BYTES)
    end = ahead.offset + ahead.length;
  return end - offset < WINDOW_BYTES ? end - offset : WINDOW_BYTES;
}

static int
append_range (struct allocation *a, const struct runs *map,
              struct run_pos pos, const struct run *run, struct plan *plan)
{
  uint64_t end = run->offset + run->length;

  for (uint64_t offset = run->offset; offset < end; ) {
    struct nbdkit_extent e;
    uint64_t n;

    if (!find (a, offset, &e)) {
      if (ask (a, offset, window (map, pos, run, offset)) == -1)
        return -1;
      if (!find (a, offset, &e)) {
        log_error ("extents of the source at %" PRIu64 ": none", offset);
        return -1;
      }
    }
    n = e.offset + e.length - offset;
    if (n > end - offset)
      n = end - offset;
    if (plan_append (plan, offset, n,
                     e.type & NBDKIT_EXTENT_ZERO ? EXTENT_ZERO
                                                 : EXTENT_DATA) == -1)
      return -1;
    offset += n;
  }
  return 0;
}

static int
append_all (struct allocation *a, bool can_extents, const struct runs *map,
            struct plan *plan)
{
  struct run run = { .offset = 0, .length = a->size };
  struct run_pos pos = { 0 };

  if (!map)
    return can_extents ? append_range (a, NULL, pos, &run, plan)
                       : plan_append (plan, 0, a->size, EXTENT_DATA);
  while (runs_next (map, &pos, &run))
    if ((can_extents
         ? append_range (a, map, pos, &run, plan)
         : plan_append (plan, run.offset, run.length, EXTENT_DATA)) == -1)
      return -1;
  return 0;
}

int
planner_make (nbdkit_next *next, bool can_extents, uint64_t size,
              const struct runs *map, struct plan *plan)
{
  struct allocation a = { .next = next, .size = size };
  int r;

  if (map && map->end > size) {
    log_error ("the map has a range up to %" PRIu64 ", beyond the end of the "
               "disk at %" PRIu64, map->end, size);
    return -1;
  }
  r = append_all (&a, can_extents, map, plan);
  nbdkit_extents_free (a.extents);
  return r == 0 ? plan_finish (plan) : -1;
}
