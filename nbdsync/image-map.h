/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A map of an image that nobody serves yet: it is served by a reader as long
 * as its map is read.
 */
#ifndef NBDSYNC_IMAGE_MAP_H
#define NBDSYNC_IMAGE_MAP_H

#include "reader.h"
#include "runs.h"

/* The dirty ranges of spec->bitmap, if there is one; with
 * spec->allocation_depth only what the topmost 'layers' images hold.  The
 * socket is made and removed at 'socket'.  -1 with a message.
 */
int image_map_read (const struct reader_spec *spec, unsigned layers,
                    const char *socket, struct runs *ret);

#endif /* NBDSYNC_IMAGE_MAP_H */
