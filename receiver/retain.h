/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which generations a replica keeps as restore points.  Pure functions: no
 * clock, no files.
 */
#ifndef NBDSYNC_RETAIN_H
#define NBDSYNC_RETAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RETAIN_MAX 99999        /* of each number in a rule */

enum retain_period {
  RETAIN_HOUR,
  RETAIN_DAY,
  RETAIN_WEEK,
  RETAIN_PERIODS
};

struct retain_rule {
  unsigned last;                /* newest ones besides the current one */
  unsigned periods[RETAIN_PERIODS]; /* that keep their newest one */
};

/* Why a generation is kept: an or of these; 0: it is not. */
enum retain_reason {
  RETAIN_CURRENT = 1,
  RETAIN_PINNED = 2,
  RETAIN_LAST = 4,
  RETAIN_HOURLY = 8,            /* 8 << enum retain_period */
  RETAIN_DAILY = 16,
  RETAIN_WEEKLY = 32,
};

struct retain_point {
  uint64_t number;
  uint64_t time;                /* of its commit, seconds since the Epoch */
  bool current;
  bool pinned;
  unsigned reasons;             /* set by retain_decide */
};

/* A rule as people write it: "3", "24h" or "3,24h,7d,4w", each kind at most
 * once, in any order.  Returns NULL, or what is wrong with it (a constant
 * string); then *ret is untouched.
 */
const char *retain_parse (const char *text, struct retain_rule *ret);

/* Set the reasons of n points, whose numbers ascend. */
void retain_decide (const struct retain_rule *rule,
                    struct retain_point *points, size_t n);

#endif /* NBDSYNC_RETAIN_H */
