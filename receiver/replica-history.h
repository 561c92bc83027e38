/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which older generations the current image of a disk is built on.
 */
#ifndef NBDSYNC_REPLICA_HISTORY_H
#define NBDSYNC_REPLICA_HISTORY_H

#include "replica.h"

#define HISTORY_MAX 1000        /* generations that are told of */

/* A generation below the current one. */
struct past {
  uint64_t generation;
  char *source;                 /* its disk was this one then; owned */
};
DEFINE_VECTOR (pasts, struct past)

/* Append to *ret the generations below the current image of the disk, the
 * newest first, as far as they are of the same chain and size: what the
 * current image has over one of them is in the images above it alone.  Empty
 * if there is no such disk.  -1 with a message.
 */
int replica_history (const struct replica *r, const char *disk, pasts *ret);
void pasts_free (pasts *v);

#endif /* NBDSYNC_REPLICA_HISTORY_H */
