/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The search for the bitmap that proves a sync.  What such a bitmap says is
 * true wherever it is: it was made on the image that was the active one at
 * its generation's instant, and has recorded every write to that image
 * since, also those of a commit from above; what the images above it hold
 * now is the rest.  tests/test-evidence.c has the table.
 */
#include <config.h>

#include "bitmaps.h"
#include "evidence.h"

enum bitmap_state
bitmap_state (const struct bitmap *b)
{
  if (!b)
    return BITMAP_ABSENT;
  if (b->inconsistent)
    return BITMAP_INCONSISTENT;
  return b->recording ? BITMAP_GOOD : BITMAP_DISABLED;
}

/* Look for one generation's bitmap from the active image down. */
static struct evidence
find_one (const struct disk *disk, const char *chain, uint64_t generation)
{
  struct evidence first = { .state = BITMAP_ABSENT };
  char name[BITMAP_NAME_MAX];

  bitmap_name (chain, generation, 0, name);
  for (size_t above = 0; above <= disk->backing.len; above++) {
    const struct layer *l =
      above > 0 ? &disk->backing.ptr[above - 1] : NULL;
    const bitmaps *here = l ? &l->bitmaps : &disk->bitmaps;
    struct evidence e = {
      .bitmap = bitmaps_find (here, name),
      .node = l ? l->node : disk->node, .above = above,
      .generation = generation,
    };

    if (l && l->size != disk->size)
      break;
    e.state = bitmap_state (e.bitmap);
    if (e.state == BITMAP_GOOD)
      return e;
    if (e.bitmap && !first.bitmap)
      first = e;
  }
  return first;
}

struct evidence
evidence_find (const struct disk *disk, const char *chain,
               uint64_t generation, const uint64_t *history, size_t n)
{
  struct evidence current = find_one (disk, chain, generation);

  for (size_t i = 0; i < n && current.state != BITMAP_GOOD; i++) {
    struct evidence older = find_one (disk, chain, history[i]);

    if (older.state == BITMAP_GOOD)
      return older;
  }
  return current;
}
