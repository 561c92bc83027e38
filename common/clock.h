/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Deadlines: points on the monotonic clock, in milliseconds.
 */
#ifndef NBDSYNC_CLOCK_H
#define NBDSYNC_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t
clock_ms (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * INT64_C (1000) + ts.tv_nsec / 1000000;
}

/* Milliseconds until the deadline, for poll: never negative. */
static inline int
clock_left_ms (int64_t deadline)
{
  int64_t left = deadline - clock_ms ();

  return left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : left;
}

#endif /* NBDSYNC_CLOCK_H */
