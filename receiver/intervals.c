/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sets of numbers as sorted intervals.  No state of its own.
 */
#include <config.h>

#include <string.h>

#include "intervals.h"

size_t
intervals_find (const struct intervals *s, uint64_t at)
{
  size_t low = 0, high = s->v.len;

  while (low < high) {
    size_t mid = low + (high - low) / 2;

    if (s->v.ptr[mid].end <= at)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

int
intervals_add (struct intervals *s, uint64_t start, uint64_t end)
{
  /* Those from first to before last are merged: a neighbour that only
   * touches is one of them.
   */
  size_t first = intervals_find (s, start > 0 ? start - 1 : 0), last = first;
  struct interval *p;

  if (start >= end)
    return 0;
  if (first < s->v.len && s->v.ptr[first].end < start)
    first = ++last;
  while (last < s->v.len && s->v.ptr[last].start <= end) {
    struct interval old = s->v.ptr[last++];

    if (old.start < start)
      start = old.start;
    if (old.end > end)
      end = old.end;
    s->total -= old.end - old.start;
  }
  if (first == last) {
    if (interval_vector_append (&s->v, (struct interval) { 0 }) == -1)
      return -1;
    p = s->v.ptr + first;
    memmove (p + 1, p, (s->v.len - 1 - first) * sizeof *p);
  }
  else {
    p = s->v.ptr + first;
    memmove (p + 1, s->v.ptr + last, (s->v.len - last) * sizeof *p);
    s->v.len -= last - first - 1;
  }
  *p = (struct interval) { start, end };
  s->total += end - start;
  return 0;
}

bool
intervals_cover (const struct intervals *s, uint64_t start, uint64_t end)
{
  size_t i = intervals_find (s, start);

  return start >= end ||
    (i < s->v.len && s->v.ptr[i].start <= start && s->v.ptr[i].end >= end);
}

void
intervals_reset (struct intervals *s)
{
  interval_vector_reset (&s->v);
  s->total = 0;
}
