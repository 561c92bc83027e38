/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which bitmap proves what changed since a generation of the replica.  A
 * bitmap stays where it was when a snapshot puts a new image over it, and
 * comes up again when that image is committed or dropped; so all images of
 * the backing chain are looked through.  Pure.
 */
#ifndef NBDSYNC_EVIDENCE_H
#define NBDSYNC_EVIDENCE_H

#include <stddef.h>
#include <stdint.h>

#include "decide.h"
#include "disks.h"

struct evidence {
  enum bitmap_state state;      /* of the bitmap */
  const struct bitmap *bitmap;  /* of the disk; NULL: absent */
  const char *node;             /* that has it, of the disk */
  unsigned above;               /* images above that node */
  uint64_t generation;          /* since which it records */
};

/* The best bitmap of the chain (a UUID): of the replica's generation, else of
 * the newest of the n older ones in 'history' (the newest first) that has a
 * good one; of several the one with the fewest images above it.  Images of
 * another size than the disk's are left out with all below them.  If none is
 * good, what the state of the one of 'generation' is.
 */
struct evidence evidence_find (const struct disk *disk, const char *chain,
                               uint64_t generation, const uint64_t *history,
                               size_t n);

/* The state of a bitmap that was found, or of NULL. */
enum bitmap_state bitmap_state (const struct bitmap *b);

#endif /* NBDSYNC_EVIDENCE_H */
