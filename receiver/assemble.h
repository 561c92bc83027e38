/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Assembly: pieces that clients write become frames.  A struct frames is a
 * set of frames that are not complete yet; its owner's lock guards it and
 * the frames in it.
 *
 * Functions that can fail return NULL, or what is wrong as a constant
 * string; errno says more if it is not 0.
 */
#ifndef NBDSYNC_ASSEMBLE_H
#define NBDSYNC_ASSEMBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "intervals.h"
#include "pages.h"

struct partial {                /* a frame that is coming in */
  uint64_t index;
  struct intervals data;        /* its bytes that were written */
  struct intervals any;         /*   or zeroed */
  struct pages mem;             /* its bytes, as far as they came, or */
  int64_t spill;                /*   its slot of the temporary file; -1 */
  size_t costs;                 /* taken from the budget for itself */
  bool has_envelope;
  struct envelope envelope;
  bool busy;                    /* a thread works on it without the lock:
                                 * nobody else may touch it */
  bool doubtful;                /* its zeroes did not make the checksum right:
                                 * wait for data, or for the flush */
};
DEFINE_VECTOR (partials, struct partial *)

struct frames {
  partials v;                   /* sorted by index */
};

/* The frame of that index, or the next one behind it, or NULL. */
struct partial *frames_from (const struct frames *f, uint64_t index);
struct partial *frames_find (const struct frames *f, uint64_t index);

/* Find it or make an empty one.  NULL if out of memory. */
struct partial *frames_get (struct frames *f, uint64_t index);

/* Forget one, or all of them. */
void frames_drop (struct frames *f, struct partial *p);
void frames_reset (struct frames *f);

/* Have any bytes come as data? */
bool frames_have_data (const struct frames *f);

/* Add a piece at 'offset' of the frame's slot; buf is NULL for zeroes.
 * What lies beyond the end of the frame is ignored.  When the envelope is
 * complete it is decoded, and wrong if it cannot be.
 */
const char *partial_add (struct partial *p, uint64_t offset,
                         const void *buf, uint64_t n);

/* Move what came for a frame to the same frame of another set, where bytes
 * that are there already have priority.  'p' leaves its set.
 */
const char *frames_move (struct frames *from, struct partial *p,
                         struct frames *to);

static inline size_t
partial_bytes (const struct partial *p)
{
  return ENVELOPE_BYTES + p->envelope.packed_bytes;
}

/* Did all its bytes come, written or zeroed?  All of them written? */
static inline bool
partial_covered (const struct partial *p)
{
  return p->has_envelope && intervals_cover (&p->any, 0, partial_bytes (p));
}

static inline bool
partial_is_data (const struct partial *p)
{
  return p->has_envelope && intervals_cover (&p->data, 0, partial_bytes (p));
}

/* Are its bytes in memory as one piece, zeroes included? */
static inline bool
partial_in_memory (const struct partial *p)
{
  return p->spill == -1 && p->mem.bytes >= partial_bytes (p);
}

/* Copy bytes of the frame; those that did not come are zeroes. */
const char *partial_read (const struct partial *p, size_t offset, void *buf,
                          size_t n);

/* At a flush: is there an envelope, if what is missing of it is zero? */
bool partial_assume_envelope (struct partial *p);

#endif /* NBDSYNC_ASSEMBLE_H */
