/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The pipeline: workers that build frames ahead of the readers, and the
 * queue of frames between them, within a fixed amount of memory.
 */
#ifndef NBDSYNC_PIPELINE_H
#define NBDSYNC_PIPELINE_H

#include <limits.h>
#include <stdint.h>

#include "builder.h"
#include "queue.h"

#define LEVEL_AUTO INT_MIN

struct pipeline_config {
  uint64_t buffer_bytes;        /* delta-buffer */
  unsigned threads;             /* wanted; fewer if memory does not allow */
  int level;                    /* or LEVEL_AUTO */
};

struct pipeline_stats {
  struct queue_stats queue;
  uint64_t frames;              /* of the plan */
  uint64_t queue_frames;        /* ready to be read */
  uint64_t read_bytes;          /* all reads of the source */
  uint64_t reader_waits, worker_waits;
  int level;                    /* of the last frame */
};

struct pipeline;

/* Can this configuration work with batches of this size?  -1 with a
 * message that says how much buffer it takes.
 */
int pipeline_check (const struct pipeline_config *config,
                    uint32_t batch_bytes);

/* The source must outlive the pipeline.  No thread starts before the first
 * frame is wanted.  NULL with a message.
 */
struct pipeline *pipeline_create (const struct pipeline_config *config,
                                  const struct source *source);

/* Make everybody who waits give up, end the workers, free. */
void pipeline_stop (struct pipeline *p);
void pipeline_free (struct pipeline *p);

/* The length of frame k (0 ...), built for it if need be.  -1 with *err
 * set; a message has been given, now or when the frame failed.
 */
int pipeline_length (struct pipeline *p, uint64_t k, uint32_t *ret, int *err);

/* Read [offset, offset + count) of slot k: bytes of the frame, then
 * zeroes.
 */
int pipeline_read (struct pipeline *p, uint64_t k, uint64_t offset,
                   uint32_t count, void *buf, int *err);

void pipeline_get_stats (struct pipeline *p, struct pipeline_stats *ret);

#endif /* NBDSYNC_PIPELINE_H */
