/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Time for deadlines and durations: monotonic milliseconds.
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

#endif /* NBDSYNC_CLOCK_H */
