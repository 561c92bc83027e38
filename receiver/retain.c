/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which generations a replica keeps as restore points.
 *
 * Hours, days and weeks (from Monday) are those of UTC.  "24h" keeps the
 * newest generation of each of the last 24 hours that have any, as backup
 * programs do: a machine that was off for a week loses no history to the
 * clock, and no clock is asked.  A generation may be kept for several
 * reasons; what the current one or a pinned one fills is filled.
 *
 * "Newest" goes by numbers.  A clock that was set back splits an hour in
 * two, which costs a point, but never drops the newest ones.
 *
 * To remove what is dropped changes nothing for the others, so it does not
 * matter how often, or how late, that is done.
 */
#include <config.h>

#include <string.h>

#include "retain.h"

#define DAY_SECONDS 86400

/* The hour, day or week in which a time is; they are numbered upwards. */
static uint64_t
period_of (uint64_t time, enum retain_period period)
{
  switch (period) {
  case RETAIN_HOUR:
    return time / 3600;
  case RETAIN_DAY:
    return time / DAY_SECONDS;
  default:                      /* day 0 was a Thursday */
    return (time / DAY_SECONDS + 3) / 7;
  }
}

static void
keep_periods (enum retain_period period, unsigned count,
              struct retain_point *points, size_t n)
{
  const struct retain_point *kept = NULL;

  while (n-- > 0 && count > 0) {
    struct retain_point *p = &points[n];

    if (kept && period_of (p->time, period) == period_of (kept->time, period))
      continue;
    p->reasons |= RETAIN_HOURLY << period;
    kept = p;
    count--;
  }
}

void
retain_decide (const struct retain_rule *rule,
               struct retain_point *points, size_t n)
{
  unsigned last = rule->last;

  for (size_t i = n; i-- > 0; ) {
    struct retain_point *p = &points[i];

    p->reasons = p->pinned ? RETAIN_PINNED : 0;
    if (p->current)
      p->reasons |= RETAIN_CURRENT;
    else if (last > 0) {
      p->reasons |= RETAIN_LAST;
      last--;
    }
  }
  for (int i = 0; i < RETAIN_PERIODS; i++)
    keep_periods (i, rule->periods[i], points, n);
}

const char *
retain_parse (const char *text, struct retain_rule *ret)
{
  static const char units[] = "hdw"; /* in the order of the periods */
  struct retain_rule rule = { 0 };
  unsigned seen = 0;

  for (;;) {
    size_t digits = strspn (text, "0123456789");
    unsigned v = 0, *where = &rule.last, bit = 1;
    const char *unit;

    if (digits == 0)
      return "not numbers with h, d or w, as in 3,24h,7d,4w";
    while (digits-- > 0) {
      v = 10 * v + (*text++ - '0');
      if (v > RETAIN_MAX)
        return "a number above 99999";
    }
    if (*text && (unit = strchr (units, *text))) {
      where = &rule.periods[unit - units];
      bit = 2 << (unit - units);
      text++;
    }
    if (seen & bit)
      return "the same kind of number twice";
    seen |= bit;
    *where = v;
    if (!*text)
      break;
    if (*text++ != ',')
      return "not numbers with h, d or w, as in 3,24h,7d,4w";
  }
  *ret = rule;
  return NULL;
}
