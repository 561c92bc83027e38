/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The queue of frames: what is in memory, what is built next, what goes
 * when room is needed.  Decisions only: no threads, no locks, no I/O.  The
 * pipeline calls everything here with its lock held.
 */
#ifndef NBDSYNC_QUEUE_H
#define NBDSYNC_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "frames.h"

/* What is kept of every frame. */
struct slot {
  uint32_t length;              /* if built; errno, if failed */
  int8_t level;                 /* that it was built with */
  bool built, failed;
  bool told;                    /* a reader knows the length */
  bool sent;                    /* all of it has been read */
};

struct queue_stats {
  uint64_t frames_built;        /* each counted once, as are: */
  uint64_t data_bytes, zero_bytes, packed_bytes;
  uint64_t sent_bytes;          /* of frames, handed to readers */
  uint64_t frames_sent;         /* wholly read */
  uint64_t disk_bytes_sent;     /* described by these */
  uint64_t bytes;               /* ready to be read */
};

DEFINE_VECTOR (frame_queue, struct frame *)

struct queue {
  uint64_t last;                /* frames are 1 .. last */
  struct slot *slots;           /* by number of frame; 0 is not used */
  struct frames frames;
  frame_queue wanted;           /* first come, first served */
  uint64_t used, max;           /* bytes, reserved ones included */
  size_t frame_max;             /* reserved for a frame that is built */
  uint64_t cursor;              /* next frame to build ahead */
  bool again;                   /* build ahead also what has been sent */
  uint64_t last_wanted;
  bool failed;                  /* some frame has: no building ahead */
  struct queue_stats stats;
};

/* -1 if out of memory.  max is at least frame_max. */
int queue_init (struct queue *q, uint64_t last, uint64_t max,
                size_t frame_max);
void queue_reset (struct queue *q);

/* Frame k, entered as wanted if nobody has it yet; pinned until
 * queue_unpin.  NULL if out of memory.
 */
struct frame *queue_pin (struct queue *q, uint64_t k);

/* Unpin it.  True if there may be more room now. */
bool queue_unpin (struct queue *q, struct frame *f);

/* The next frame to build, with room reserved for it; NULL if there is
 * nothing to build, or no room.
 */
struct frame *queue_next (struct queue *q);

/* It was built: memory of 'length' bytes from frame_data_alloc, at this
 * level; data_bytes and zero_bytes are of the disk.  Or it has failed.
 */
void queue_built (struct queue *q, struct frame *f, unsigned char *data,
                  uint32_t length, int level, uint64_t data_bytes,
                  uint64_t zero_bytes);
void queue_failed (struct queue *q, struct frame *f, int err);

/* A reader was told the length, and given [start, end) of a pinned frame. */
void queue_mark_read (struct queue *q, struct frame *f, uint32_t start,
                      uint32_t end);

#endif /* NBDSYNC_QUEUE_H */
