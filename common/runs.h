/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A compact list of runs of a disk, in ascending order: two to six bytes
 * each instead of 24, so that the map of a large, scattered disk stays
 * small.  A run has two flag bits for its user.
 */
#ifndef NBDSYNC_RUNS_H
#define NBDSYNC_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vector.h"

DEFINE_VECTOR (run_bytes, unsigned char)

struct runs {
  run_bytes bytes;
  uint64_t end;                 /* of the last run */
  uint64_t count;               /* of runs */
  uint64_t total;               /* bytes of the disk in them */
};

struct run {
  uint64_t offset, length;
  unsigned flags;               /* 0 .. 3 */
};

/* Append a run that starts at or after the end of the last one; length is
 * greater than 0.  -1 if out of memory.
 */
int runs_append (struct runs *runs, uint64_t offset, uint64_t length,
                 unsigned flags);
void runs_reset (struct runs *runs);

/* A place in the list; copy it to look ahead.  Start from { 0 }. */
struct run_pos {
  size_t byte;                  /* of the next run */
  uint64_t end;                 /* of the run before it */
};

/* The next run; false at the end of the list. */
bool runs_next (const struct runs *runs, struct run_pos *pos,
                struct run *ret);

/* What is in either of them, or in 'a' but not in 'b'.  Neighbouring runs
 * become one; flags are 0.  *ret starts from { 0 }.  -1 if out of memory.
 */
int runs_union (const struct runs *a, const struct runs *b, struct runs *ret);
int runs_subtract (const struct runs *a, const struct runs *b,
                   struct runs *ret);

/* Write them as nbdkit-extentlist-filter(1) reads them.  -1 with a message. */
int runs_write (const struct runs *runs, const char *path);

#endif /* NBDSYNC_RUNS_H */
