/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The frames that are in memory or under way: found by number, ordered by
 * when they were last touched, each with what of it has been read.
 */
#ifndef NBDSYNC_FRAMES_H
#define NBDSYNC_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vector.h"

struct interval {
  uint32_t start, end;
};
DEFINE_VECTOR (intervals, struct interval)

enum frame_state { FRAME_WANTED, FRAME_BUILDING, FRAME_READY, FRAME_FAILED };

struct frame {
  uint64_t index;
  enum frame_state state;
  unsigned pins;                /* readers that wait for it or copy from it */
  unsigned char *data;          /* when ready, of 'length' */
  uint32_t length;
  int error;                    /* when failed */
  uint64_t data_bytes, zero_bytes; /* of the disk, that it describes */
  intervals read;               /* disjoint, ascending; what was handed out */
  bool done;                    /* all of it was: goes when nobody has it */
  struct frame *hash_next;
  struct frame *older, *newer;  /* among the ready ones */
};

#define FRAMES_BUCKETS 4096

struct frames {
  struct frame *buckets[FRAMES_BUCKETS];
  struct frame *oldest, *newest; /* ready, by when they were last touched */
  size_t nr_ready;
};

struct frame *frames_find (struct frames *frames, uint64_t index);

/* Add frame 'index', which is not there; NULL if out of memory. */
struct frame *frames_add (struct frames *frames, uint64_t index,
                          enum frame_state state);

/* It has become ready, or is used again: it is the newest now. */
void frames_touch (struct frames *frames, struct frame *f);

/* Take it out and free it. */
void frames_remove (struct frames *frames, struct frame *f);

/* The oldest ready frame that nobody has pinned; NULL if there is none. */
struct frame *frames_oldest (struct frames *frames);

/* Note that [start, end) has been read.  True if now all of it has. */
bool frame_mark_read (struct frame *f, uint32_t start, uint32_t end);

/* The memory of a frame; given back to the system when it is freed, for
 * in malloc's arenas these lengths would leave holes that add up.
 */
unsigned char *frame_data_alloc (size_t bytes);
void frame_data_free (unsigned char *data, size_t bytes);

#endif /* NBDSYNC_FRAMES_H */
