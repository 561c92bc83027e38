/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Assembly.  A frame begins with its first piece, wherever that lies.  Its
 * bytes are kept in memory as far as they came (never as far as an envelope
 * claims that they will), or in the temporary file once memory is full; a
 * frame that has gone there stays there.  Which bytes came is kept as two
 * sets of intervals: by data alone, and by data or zeroes.  The second says
 * when the frame is complete, the first whether a wrong checksum is final:
 * a client may zero a range first and fill it later.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "assemble.h"
#include "budget.h"
#include "spill.h"

#define GROW_BYTES (UINT64_C (64) << 10)
#define PIECES_MAX 65536        /* apart from each other, in one frame */

static const char too_many[] =
  "too many frames have begun and none ends; raise buffer=";
static const char no_memory[] = "no memory for its pieces";
static const char no_spill[] = "the temporary file for early pieces";

static size_t
find_index (const struct frames *f, uint64_t index)
{
  size_t low = 0, high = f->v.len;

  while (low < high) {
    size_t mid = low + (high - low) / 2;

    if (f->v.ptr[mid]->index < index)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

struct partial *
frames_from (const struct frames *f, uint64_t index)
{
  size_t i = find_index (f, index);

  return i < f->v.len ? f->v.ptr[i] : NULL;
}

struct partial *
frames_find (const struct frames *f, uint64_t index)
{
  struct partial *p = frames_from (f, index);

  return p && p->index == index ? p : NULL;
}

static int
insert (struct frames *f, struct partial *p)
{
  size_t i = find_index (f, p->index);

  if (partials_append (&f->v, p) == -1)
    return -1;
  memmove (f->v.ptr + i + 1, f->v.ptr + i,
           (f->v.len - 1 - i) * sizeof f->v.ptr[0]);
  f->v.ptr[i] = p;
  return 0;
}

static void
remove_from (struct frames *f, const struct partial *p)
{
  size_t i = find_index (f, p->index);

  f->v.len--;
  memmove (f->v.ptr + i, f->v.ptr + i + 1,
           (f->v.len - i) * sizeof f->v.ptr[0]);
}

static void
partial_free (struct partial *p)
{
  budget_give_pieces (p->mem.bytes);
  pages_free (&p->mem);
  if (p->spill != -1)
    spill_give (p->spill);
  intervals_reset (&p->data);
  intervals_reset (&p->any);
  budget_give_costs (p->costs);
  free (p);
}

struct partial *
frames_get (struct frames *f, uint64_t index)
{
  struct partial *p = frames_find (f, index);

  if (p)
    return p;
  p = calloc (1, sizeof *p);
  if (!p)
    return NULL;
  p->index = index;
  p->spill = -1;
  if (insert (f, p) == -1) {
    free (p);
    return NULL;
  }
  return p;
}

void
frames_drop (struct frames *f, struct partial *p)
{
  remove_from (f, p);
  partial_free (p);
}

void
frames_reset (struct frames *f)
{
  for (size_t i = 0; i < f->v.len; i++)
    partial_free (f->v.ptr[i]);
  partials_reset (&f->v);
}

bool
frames_have_data (const struct frames *f)
{
  for (size_t i = 0; i < f->v.len; i++)
    if (f->v.ptr[i]->data.total > 0)
      return true;
  return false;
}

/* Move the bytes from memory to the temporary file. */
static const char *
spill_out (struct partial *p)
{
  int64_t slot = spill_take ();

  if (slot == -1)
    return no_spill;
  for (size_t i = 0; i < p->data.v.len; i++) {
    struct interval d = p->data.v.ptr[i];

    if (spill_write (slot, d.start, p->mem.ptr + d.start,
                     d.end - d.start) == -1) {
      int saved = errno;
      spill_give (slot);
      errno = saved;
      return no_spill;
    }
  }
  budget_give_pieces (p->mem.bytes);
  pages_free (&p->mem);
  p->spill = slot;
  return NULL;
}

static const char *
store (struct partial *p, size_t offset, const void *buf, size_t n)
{
  size_t need = (offset + n + GROW_BYTES - 1) & ~(GROW_BYTES - 1);
  const char *wrong;

  if (p->spill == -1 && need > p->mem.bytes) {
    if (!budget_take_pieces (need - p->mem.bytes)) {
      wrong = spill_out (p);
      if (wrong)
        return wrong;
    }
    else {
      size_t before = p->mem.bytes;

      if (pages_resize (&p->mem, need) == -1) {
        budget_give_pieces (need - before);
        return no_memory;
      }
    }
  }
  if (p->spill != -1)
    return spill_write (p->spill, offset, buf, n) == -1 ? no_spill : NULL;
  memcpy (p->mem.ptr + offset, buf, n);
  return NULL;
}

/* Zero what came as data in [offset, offset + n). */
static const char *
store_zeroes (struct partial *p, uint64_t offset, uint64_t n)
{
  static const unsigned char zeroes[4096];
  size_t i;

  for (i = intervals_find (&p->data, offset);
       i < p->data.v.len && p->data.v.ptr[i].start < offset + n; i++) {
    uint64_t from = p->data.v.ptr[i].start, to = p->data.v.ptr[i].end;

    if (from < offset)
      from = offset;
    if (to > offset + n)
      to = offset + n;
    while (from < to) {
      size_t part = to - from < sizeof zeroes ? to - from : sizeof zeroes;
      const char *wrong = store (p, from, zeroes, part);

      if (wrong)
        return wrong;
      from += part;
    }
  }
  return NULL;
}

/* Account for the memory that the frame takes apart from its bytes. */
static bool
take_costs (struct partial *p)
{
  size_t costs = sizeof *p + sizeof p +
    (p->data.v.cap + p->any.v.cap) * sizeof (struct interval);

  if (costs > p->costs) {
    if (!budget_take_costs (costs - p->costs))
      return false;
    p->costs = costs;
  }
  return true;
}

static const char *
decode_envelope (struct partial *p)
{
  unsigned char bytes[ENVELOPE_BYTES];
  const char *wrong = partial_read (p, 0, bytes, sizeof bytes);
  size_t need;

  if (!wrong)
    wrong = envelope_decode (bytes, p->index, &p->envelope);
  if (wrong)
    return wrong;
  p->has_envelope = true;

  /* Give back what came from behind the end of the frame. */
  need = (partial_bytes (p) + GROW_BYTES - 1) & ~(GROW_BYTES - 1);
  if (p->mem.bytes > need) {
    size_t more = p->mem.bytes - need;

    if (pages_resize (&p->mem, need) == 0)
      budget_give_pieces (more);
  }
  return NULL;
}

bool
partial_assume_envelope (struct partial *p)
{
  return p->has_envelope ||
    (p->data.v.len > 0 && p->data.v.ptr[0].start < ENVELOPE_BYTES &&
     decode_envelope (p) == NULL);
}

const char *
partial_add (struct partial *p, uint64_t offset, const void *buf, uint64_t n)
{
  uint64_t end = p->has_envelope ? partial_bytes (p) : FRAME_MAX_BYTES;
  const char *wrong;

  errno = 0;
  if (offset >= end || n == 0)
    return NULL;
  if (n > end - offset)
    n = end - offset;
  wrong = buf ? store (p, offset, buf, n) : store_zeroes (p, offset, n);
  if (wrong)
    return wrong;
  if (intervals_add (&p->any, offset, offset + n) == -1 ||
      (buf && intervals_add (&p->data, offset, offset + n) == -1))
    return no_memory;
  if (p->any.v.len > PIECES_MAX || p->data.v.len > PIECES_MAX)
    return "cut into too many pieces";
  if (!take_costs (p))
    return too_many;
  errno = 0;
  if (!p->has_envelope && intervals_cover (&p->data, 0, ENVELOPE_BYTES))
    return decode_envelope (p);
  return NULL;
}

const char *
partial_read (const struct partial *p, size_t offset, void *buf, size_t n)
{
  size_t have = 0;

  errno = 0;
  if (p->spill != -1)
    return spill_read (p->spill, offset, buf, n) == -1 ? no_spill : NULL;
  if (offset < p->mem.bytes)
    have = n < p->mem.bytes - offset ? n : p->mem.bytes - offset;
  if (have > 0)
    memcpy (buf, p->mem.ptr + offset, have);
  memset ((char *) buf + have, 0, n - have);
  return NULL;
}

/* Add [start, end) of 'from' where 'to' has nothing yet. */
static const char *
fill (struct partial *to, const struct partial *from, uint64_t start,
      uint64_t end, bool data)
{
  unsigned char buf[16384];
  const char *wrong = NULL;

  while (!wrong && start < end) {
    size_t i = intervals_find (&to->any, start);
    uint64_t stop = end;

    if (i < to->any.v.len) {
      struct interval have = to->any.v.ptr[i];

      if (have.start <= start) {
        start = have.end;
        continue;
      }
      if (have.start < stop)
        stop = have.start;
    }
    if (data) {
      if (stop - start > sizeof buf)
        stop = start + sizeof buf;
      wrong = partial_read (from, start, buf, stop - start);
    }
    if (!wrong)
      wrong = partial_add (to, start, data ? buf : NULL, stop - start);
    if (to->has_envelope && end > partial_bytes (to))
      end = partial_bytes (to);
    start = stop;
  }
  return wrong;
}

const char *
frames_move (struct frames *from, struct partial *p, struct frames *to)
{
  struct partial *q = frames_find (to, p->index);
  const char *wrong = NULL;

  remove_from (from, p);
  errno = 0;
  if (!q) {
    if (insert (to, p) == 0)
      return NULL;
    wrong = no_memory;
  }
  else {
    /* Data first: a zero of the same bytes was there before or after it. */
    for (size_t i = 0; !wrong && i < p->data.v.len; i++)
      wrong = fill (q, p, p->data.v.ptr[i].start, p->data.v.ptr[i].end, true);
    for (size_t i = 0; !wrong && i < p->any.v.len; i++)
      wrong = fill (q, p, p->any.v.ptr[i].start, p->any.v.ptr[i].end, false);
  }
  partial_free (p);
  return wrong;
}
