/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Building a frame: read what a batch of the plan calls data, drop what
 * turns out to be zero, compress.  A builder belongs to one thread.
 */
#ifndef NBDSYNC_BUILDER_H
#define NBDSYNC_BUILDER_H

#include <stdatomic.h>
#include <stdbool.h>

#include <nbdkit-filter.h>

#include "plan.h"

/* What frames are built from; shared by all builders, read only. */
struct source {
  nbdkit_next *next;            /* prepared, and shared by all threads */
  uint64_t size;
  uint32_t align;               /* of reads: its minimum block size */
  uint64_t session;
  struct plan plan;
  unsigned char *record;        /* frame 0 */
  size_t record_bytes;
};

struct built {
  const unsigned char *frame;   /* in the builder, until its next frame */
  size_t bytes;
  uint64_t data_bytes, zero_bytes; /* of the disk, that it describes */
};

struct builder;

/* The memory that a builder takes, and the most that a frame can take. */
size_t builder_bytes (uint32_t batch_bytes, int level);
size_t builder_frame_max (uint32_t batch_bytes);

/* NULL with a message if out of memory. */
struct builder *builder_create (const struct source *source);
void builder_free (struct builder *b);

/* Build frame k at a level.  Adds the bytes read from the source to
 * *read_bytes.  -1 with *err set, and a message unless *stop has become
 * true (then it gives up between two reads).
 */
int builder_build (struct builder *b, uint64_t k, int level,
                   atomic_bool *stop, struct built *ret,
                   uint64_t *read_bytes, int *err);

#endif /* NBDSYNC_BUILDER_H */
