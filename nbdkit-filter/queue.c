/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames are built in order of their numbers, ahead of the readers, while
 * there is room; a reader that asks for a frame which is not there puts it
 * on the list of wanted frames, which comes first.
 *
 * Room is reserved for the most that a frame can take before it is built,
 * and what it did not need is given back.  Building ahead only waits for
 * room.  A wanted frame makes room: the frame that was not touched for
 * longest is dropped, and built again if somebody wants it.  Pins are held
 * only by readers that wait for that very frame or copy from it, and what
 * is being built waits for nothing but the disk, so a wanted frame is
 * always built in the end, in whatever order the readers come.  A reader
 * has its pin from when it starts to wait, so what is built for it stays.
 *
 * When all of a frame has been read it is dropped.  Of a frame whose
 * length a reader was told, length and level are kept, since it must be
 * the same if it is built again.  One that nobody was told of is forgotten
 * wholly when it is dropped: on a disk in use it may come out otherwise.
 *
 * Where building ahead goes on ('cursor') follows the readers when they
 * start over, or jump, and then go on in sequence.  After an error nothing
 * is built ahead any more, but what is wanted is still tried.
 *
 * No locks of its own: see queue.h.
 */
#include <config.h>

#include "queue.h"

#define READY_MAX 16384         /* frames; they may be tiny */
#define NEAR_FRAMES 16          /* a client's connections are about as far
                                   apart when it reads in sequence */

int
queue_init (struct queue *q, uint64_t last, uint64_t max, size_t frame_max)
{
  *q = (struct queue) { .last = last, .max = max, .frame_max = frame_max,
                        .cursor = 1 };
  q->slots = calloc (last + 1, sizeof *q->slots);
  return q->slots ? 0 : -1;
}

void
queue_reset (struct queue *q)
{
  for (size_t i = 0; i < FRAMES_BUCKETS; i++)
    while (q->frames.buckets[i]) {
      q->frames.buckets[i]->pins = 0;
      frames_remove (&q->frames, q->frames.buckets[i]);
    }
  frame_queue_reset (&q->wanted);
  free (q->slots);
}

/* What a ready frame is charged with. */
static uint64_t
frame_cost (const struct frame *f)
{
  return f->length + sizeof *f;
}

static void
drop (struct queue *q, struct frame *f)
{
  struct slot *slot = &q->slots[f->index];

  if (!slot->told) {
    slot->built = false;
    q->stats.frames_built--;
    q->stats.data_bytes -= f->data_bytes;
    q->stats.zero_bytes -= f->zero_bytes;
    q->stats.packed_bytes -= f->length;
  }
  q->used -= frame_cost (f);
  q->stats.bytes -= f->length;
  frames_remove (&q->frames, f);
}

static bool
has_room (const struct queue *q)
{
  return q->used + q->frame_max <= q->max && q->frames.nr_ready < READY_MAX;
}

/* Room for a frame that is wanted, if need be at the cost of others. */
static bool
make_room (struct queue *q)
{
  while (!has_room (q)) {
    struct frame *f = frames_oldest (&q->frames);

    if (!f)
      return false;
    drop (q, f);
  }
  return true;
}

/* The next frame to build ahead, entered as such; NULL if there is none. */
static struct frame *
next_ahead (struct queue *q)
{
  struct frame *f;

  while (q->cursor <= q->last &&
         (frames_find (&q->frames, q->cursor) ||
          q->slots[q->cursor].failed ||
          (q->slots[q->cursor].sent && !q->again)))
    q->cursor++;
  if (q->cursor > q->last) {
    q->again = false;
    return NULL;
  }
  f = frames_add (&q->frames, q->cursor, FRAME_BUILDING);
  if (f)
    q->cursor++;
  return f;
}

struct frame *
queue_next (struct queue *q)
{
  struct frame *f = NULL;

  if (q->wanted.len > 0) {
    if (make_room (q)) {
      f = q->wanted.ptr[0];
      q->wanted.len--;
      memmove (&q->wanted.ptr[0], &q->wanted.ptr[1],
               q->wanted.len * sizeof q->wanted.ptr[0]);
    }
  }
  else if (!q->failed && has_room (q))
    f = next_ahead (q);
  if (!f)
    return NULL;
  f->state = FRAME_BUILDING;
  q->used += q->frame_max;
  return f;
}

void
queue_built (struct queue *q, struct frame *f, unsigned char *data,
             uint32_t length, int level, uint64_t data_bytes,
             uint64_t zero_bytes)
{
  struct slot *slot = &q->slots[f->index];

  if (!slot->built) {
    q->stats.frames_built++;
    q->stats.data_bytes += data_bytes;
    q->stats.zero_bytes += zero_bytes;
    q->stats.packed_bytes += length;
  }
  slot->built = true;
  slot->length = length;
  slot->level = level;
  f->data = data;
  f->length = length;
  f->data_bytes = data_bytes;
  f->zero_bytes = zero_bytes;
  frames_touch (&q->frames, f);
  q->used -= q->frame_max;
  q->used += frame_cost (f);
  q->stats.bytes += length;
}

void
queue_failed (struct queue *q, struct frame *f, int err)
{
  struct slot *slot = &q->slots[f->index];

  slot->failed = true;
  slot->length = err;
  q->failed = true;
  q->used -= q->frame_max;
  f->state = FRAME_FAILED;
  f->error = err;
  if (f->pins == 0)
    frames_remove (&q->frames, f);
}

/* Let building ahead follow a reader that is elsewhere and, to judge by
 * the last frame that had to be asked for, reads in sequence.
 */
static void
follow_reader (struct queue *q, uint64_t k)
{
  bool in_sequence = k > q->last_wanted && k - q->last_wanted <= NEAR_FRAMES;

  q->last_wanted = k;
  if (!in_sequence || (k >= q->cursor && k - q->cursor <= NEAR_FRAMES))
    return;
  if (k < q->cursor)
    q->again = true;
  q->cursor = k + 1;
}

struct frame *
queue_pin (struct queue *q, uint64_t k)
{
  struct frame *f = frames_find (&q->frames, k);

  if (!f) {
    f = frames_add (&q->frames, k, FRAME_WANTED);
    if (!f)
      return NULL;
    if (frame_queue_append (&q->wanted, f) == -1) {
      frames_remove (&q->frames, f);
      return NULL;
    }
    follow_reader (q, k);
  }
  f->pins++;
  return f;
}

bool
queue_unpin (struct queue *q, struct frame *f)
{
  f->pins--;
  if (f->pins > 0)
    return false;
  if (f->state == FRAME_FAILED)
    frames_remove (&q->frames, f);
  else if (f->done)
    drop (q, f);
  else
    return q->wanted.len > 0;
  return true;
}

void
queue_mark_read (struct queue *q, struct frame *f, uint32_t start,
                 uint32_t end)
{
  struct slot *slot = &q->slots[f->index];

  slot->told = true;
  frames_touch (&q->frames, f);
  if (start == end)
    return;
  q->stats.sent_bytes += end - start;
  if (frame_mark_read (f, start, end)) {
    f->done = true;
    if (!slot->sent) {
      q->stats.frames_sent++;
      q->stats.disk_bytes_sent += f->data_bytes + f->zero_bytes;
    }
    slot->sent = true;
  }
}
