/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What changed, put together from more than one place: a bitmap, what the
 * images above it hold, and where the replica differs from the generation
 * that the bitmap is of.
 */
#ifndef NBDSYNC_COMPOSE_H
#define NBDSYNC_COMPOSE_H

#include "disks.h"
#include "runs.h"

struct compose_spec {
  const char *map;              /* map file with the bitmap (map-file.h) */
  const struct disk *disk;
  unsigned above;               /* images from the active one down, all of
                                   which is in the list; 0: none */
  const struct runs *differences; /* of the replica; may be empty */
  const char *dir;              /* private, for sockets */
  const char *name;             /* of the disk, unique in dir */
};

/* Write the list as nbdkit-extentlist-filter(1) reads it.  -1 with a message.
 */
int compose_list (const struct compose_spec *spec, const char *path);

#endif /* NBDSYNC_COMPOSE_H */
