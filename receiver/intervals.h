/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A set of numbers as sorted intervals [start, end) that do not touch.
 * Small when neighbours come together, as pieces of a frame do.
 */
#ifndef NBDSYNC_INTERVALS_H
#define NBDSYNC_INTERVALS_H

#include <stdbool.h>
#include <stdint.h>

#include "vector.h"

struct interval {
  uint64_t start, end;
};
DEFINE_VECTOR (interval_vector, struct interval)

struct intervals {
  interval_vector v;
  uint64_t total;               /* numbers in the set */
};

/* Add [start, end).  -1 if out of memory. */
int intervals_add (struct intervals *s, uint64_t start, uint64_t end);

/* Is all of [start, end) in the set? */
bool intervals_cover (const struct intervals *s, uint64_t start,
                      uint64_t end);

/* Index in s->v of the first interval that ends after 'at'. */
size_t intervals_find (const struct intervals *s, uint64_t at);

void intervals_reset (struct intervals *s);

#endif /* NBDSYNC_INTERVALS_H */
