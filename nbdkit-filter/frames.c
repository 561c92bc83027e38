/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of frames: a hash table by number, and a list of the ready
 * ones from the least to the most recently touched.  A frame belongs to
 * the list exactly when its state is FRAME_READY.
 *
 * No locks of its own: the pipeline's mutex is held for every call, but
 * for frame_data_alloc and frame_data_free.
 */
#include <config.h>

#include <assert.h>
#include <sys/mman.h>

#include "frames.h"

#define MMAP_BYTES 65536        /* from here on a frame has its own pages */
#define INTERVALS_MAX 4096      /* more is no reader that wants it all */

static struct frame **
bucket (struct frames *frames, uint64_t index)
{
  return &frames->buckets[index % FRAMES_BUCKETS];
}

struct frame *
frames_find (struct frames *frames, uint64_t index)
{
  struct frame *f = *bucket (frames, index);

  while (f && f->index != index)
    f = f->hash_next;
  return f;
}

struct frame *
frames_add (struct frames *frames, uint64_t index, enum frame_state state)
{
  struct frame **head = bucket (frames, index);
  struct frame *f = calloc (1, sizeof *f);

  if (!f)
    return NULL;
  f->index = index;
  f->state = state;
  f->hash_next = *head;
  *head = f;
  return f;
}

static void
unlink_ready (struct frames *frames, struct frame *f)
{
  *(f->older ? &f->older->newer : &frames->oldest) = f->newer;
  *(f->newer ? &f->newer->older : &frames->newest) = f->older;
  f->older = f->newer = NULL;
  frames->nr_ready--;
}

void
frames_touch (struct frames *frames, struct frame *f)
{
  if (f == frames->newest)
    return;
  if (f->state == FRAME_READY)
    unlink_ready (frames, f);
  f->state = FRAME_READY;
  f->older = frames->newest;
  *(f->older ? &f->older->newer : &frames->oldest) = f;
  frames->newest = f;
  frames->nr_ready++;
}

void
frames_remove (struct frames *frames, struct frame *f)
{
  struct frame **at = bucket (frames, f->index);

  assert (f->pins == 0);
  while (*at != f)
    at = &(*at)->hash_next;
  *at = f->hash_next;
  if (f->state == FRAME_READY)
    unlink_ready (frames, f);
  frame_data_free (f->data, f->length);
  intervals_reset (&f->read);
  free (f);
}

struct frame *
frames_oldest (struct frames *frames)
{
  struct frame *f = frames->oldest;

  while (f && f->pins > 0)
    f = f->newer;
  return f;
}

bool
frame_mark_read (struct frame *f, uint32_t start, uint32_t end)
{
  intervals *v = &f->read;
  size_t i = 0, j;

  /* i..j-1 are those that the new one touches; it takes their place. */
  while (i < v->len && v->ptr[i].end < start)
    i++;
  for (j = i; j < v->len && v->ptr[j].start <= end; j++) {
    if (start > v->ptr[j].start)
      start = v->ptr[j].start;
    if (end < v->ptr[j].end)
      end = v->ptr[j].end;
  }
  if (i == j) {
    /* Without a note the frame is only kept for longer. */
    if (v->len >= INTERVALS_MAX ||
        intervals_append (v, (struct interval) { 0 }) == -1)
      return false;
    memmove (&v->ptr[i + 1], &v->ptr[i],
             (v->len - 1 - i) * sizeof v->ptr[0]);
  }
  else {
    memmove (&v->ptr[i + 1], &v->ptr[j], (v->len - j) * sizeof v->ptr[0]);
    v->len -= j - i - 1;
  }
  v->ptr[i] = (struct interval) { .start = start, .end = end };
  return v->len == 1 && start == 0 && end == f->length;
}

unsigned char *
frame_data_alloc (size_t bytes)
{
  void *p;

  if (bytes < MMAP_BYTES)
    return malloc (bytes);
  p = mmap (NULL, bytes, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

void
frame_data_free (unsigned char *data, size_t bytes)
{
  if (!data)
    return;
  if (bytes < MMAP_BYTES)
    free (data);
  else
    munmap (data, bytes);
}
