/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A map: ranges of a disk, by the NBD meta contexts of a server of it.
 * Users link libnbd.
 */
#ifndef NBDSYNC_MAP_H
#define NBDSYNC_MAP_H

#include <stdint.h>

#include "runs.h"

struct map_source {
  const char *uri;              /* or socket, or host (and port) */
  const char *socket;
  const char *host, *port;
  const char *export;           /* if not by uri; NULL: the default export */
  const char *bitmap;           /* NULL: do not ask for a bitmap */
  unsigned layers;              /* only what the topmost so many layers hold,
                                   by qemu:allocation-depth; 0: anything */
};

/* Read the whole map.  *ret_size is the size of the export that it is of.
 * Returns -1 with a message that names server, export and context.
 */
int map_read (const struct map_source *source, struct runs *ret,
              uint64_t *ret_size);

#endif /* NBDSYNC_MAP_H */
