/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Writing to one image: frames that are unpacked go into a queue, from
 * where a thread keeps several requests in flight.
 */
#ifndef NBDSYNC_WRITER_H
#define NBDSYNC_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "pages.h"

struct body {                   /* an unpacked frame */
  struct pages mem;
  const unsigned char *data;    /* of its data extents, in mem */
  extents extents;              /* owned */
  size_t budget;                /* bytes to give back to the budget */
  unsigned refs;                /* the writer's */
  struct body *next;
};

/* Free a body and give its memory back. */
void body_free (struct body *b);

struct writer;

/* Connect to an export of the storage daemon.  'name' is the disk's, for
 * messages; copied.  'cluster_bytes' is the image's; 0: it has none.  With
 * skip_zeroes zero extents are not written, since the image reads as zeroes
 * where it was not written.  NULL with a message.
 */
struct writer *writer_start (const char *name, const char *export,
                             unsigned depth, uint64_t cluster_bytes,
                             bool skip_zeroes);

/* Stop skipping zeroes.  The queue must be empty. */
void writer_write_zeroes (struct writer *w);

/* Queue a body, which is the writer's from here on.  -1 with errno set if
 * something could not be written before (the message came then).
 */
int writer_push (struct writer *w, struct body *b);

/* Wait until all that was queued is written, and durable.  -1 with errno
 * set if any of it is not (the message came when that was noticed).
 */
int writer_flush (struct writer *w);

/* What went wrong so far: an errno, or 0. */
int writer_error (struct writer *w);

/* Drop what is queued, end, free. */
void writer_stop (struct writer *w);

#endif /* NBDSYNC_WRITER_H */
