/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Making the plan: the map (or the whole disk), and what of it the source
 * knows to be zero.
 */
#ifndef NBDSYNC_PLANNER_H
#define NBDSYNC_PLANNER_H

#include <nbdkit-filter.h>

#include "plan.h"

/* Append the plan of a disk of 'size' bytes to *plan, and finish it.  map
 * is NULL for the whole disk.  Without can_extents all of it is data.  The
 * context is prepared.  -1 with a message.
 */
int planner_make (nbdkit_next *next, bool can_extents, uint64_t size,
                  const struct runs *map, struct plan *plan);

#endif /* NBDSYNC_PLANNER_H */
