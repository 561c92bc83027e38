/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The map of a pass: which ranges of the disk are to be sent, from the NBD
 * meta contexts of the server of the disk, or from a file.
 */
#ifndef NBDSYNC_SEND_MAP_H
#define NBDSYNC_SEND_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "runs.h"

struct map_source {
  const char *uri;              /* or socket, or host (and port) */
  const char *socket;
  const char *host, *port;
  const char *export;           /* if not by uri; NULL: the default export */
  const char *bitmap;           /* NULL: do not ask for a bitmap */
  bool local;                   /* only what allocation depth calls local */
};

/* Read the whole map.  *ret_size is the size of the export that it is of.
 * Returns -1 with a message that names server, export and context.
 */
int map_read (const struct map_source *source, struct runs *ret,
              uint64_t *ret_size);

/* Read a list in the format of nbdkit-extentlist-filter(1). */
int map_read_file (const char *path, struct runs *ret);

#endif /* NBDSYNC_SEND_MAP_H */
