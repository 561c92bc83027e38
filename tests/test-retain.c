/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which generations are kept: a table, and properties over random
 * histories.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "retain.h"

#define POINTS_MAX 60
#define ROUNDS 20000
#define MONDAY UINT64_C (1699833600) /* 2023-11-13 00:00 UTC */

static int failures;

static void
fail (const char *what, const char *detail)
{
  fprintf (stderr, "%s: %s\n", what, detail);
  failures++;
}

static void
test_parse (void)
{
  static const struct {
    const char *text;
    struct retain_rule rule;
  } good[] = {
    { "3", { 3, { 0 } } },
    { "0", { 0, { 0 } } },
    { "24h", { 0, { 24, 0, 0 } } },
    { "3,24h,7d,4w", { 3, { 24, 7, 4 } } },
    { "4w,3", { 3, { 0, 0, 4 } } },
    { "99999", { 99999, { 0 } } },
  };
  static const char *const bad[] = {
    "", ",", "3,", ",3", "3,4", "1h,2h", "h", "3m", "3hd", "3 ", " 3", "-1",
    "+1", "100000", "18446744073709551617", "3;4h", "3H", "0x3",
  };

  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    struct retain_rule r = { 77, { 77, 77, 77 } };

    if (retain_parse (good[i].text, &r) != NULL ||
        memcmp (&r, &good[i].rule, sizeof r) != 0)
      fail ("not parsed", good[i].text);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct retain_rule r = { 77, { 0 } };

    if (retain_parse (bad[i], &r) == NULL || r.last != 77)
      fail ("parsed", bad[i]);
  }
}

/* Times are in minutes from a Monday; the last one is current unless
 * 'current' says which.
 */
static void
test_table (void)
{
  static const struct {
    const char *rule;
    int minutes[8];             /* ends with -1 */
    int current;                /* index, or -1: the last */
    const char *kept;           /* one character for each */
  } table[] = {
    { "3", { 1, 2, 3, 4, 5, -1 }, -1, "-++++" },
    { "0", { 1, 2, 3, -1 }, -1, "--+" },
    { "9", { 1, 2, -1 }, -1, "++" },
    /* An older one that was made current is not one of the last. */
    { "1", { 1, 2, 3, 4, -1 }, 0, "+--+" },
    /* The newest of each hour; the current one fills its own. */
    { "2h", { 10, 50, 70, 80, 130, 140, -1 }, -1, "---+-+" },
    { "3h", { 10, 50, 70, 80, 130, 140, -1 }, -1, "-+-+-+" },
    /* Hours without any do not count. */
    { "2h", { 10, 50, 6000, 9000, -1 }, -1, "--++" },
    /* The borders of an hour, a day and a week. */
    { "2h", { 59, 60, 119, 120, -1 }, -1, "--++" },
    { "2d", { 1439, 1440, 2879, 2880, -1 }, -1, "--++" },
    { "2w", { 10079, 10080, 20159, 20160, -1 }, -1, "--++" },
    { "1,2d", { 1, 2, 1500, 1501, 1502, -1 }, -1, "-+-++" },
  };

  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct retain_point p[8] = { 0 };
    struct retain_rule rule;
    char kept[9] = "";
    size_t n;

    for (n = 0; table[i].minutes[n] >= 0; n++)
      p[n] = (struct retain_point) {
        .number = n + 1, .time = MONDAY + 60 * table[i].minutes[n] };
    p[table[i].current >= 0 ? (size_t) table[i].current : n - 1].current =
      true;
    if (retain_parse (table[i].rule, &rule) != NULL) {
      fail ("not parsed", table[i].rule);
      continue;
    }
    retain_decide (&rule, p, n);
    for (size_t j = 0; j < n; j++)
      kept[j] = p[j].reasons ? '+' : '-';
    if (strcmp (kept, table[i].kept) != 0) {
      fprintf (stderr, "row %zu, %s: %s, not %s\n", i, table[i].rule, kept,
               table[i].kept);
      failures++;
    }
  }
}

static size_t
random_history (struct retain_point *p)
{
  static const unsigned steps[] = { 30, 1800, 40000, 200000 };
  size_t n = 1 + random () % POINTS_MAX, current;
  uint64_t t = MONDAY + random () % 1000000;

  current = random () % 4 ? n - 1 : random () % n;
  for (size_t i = 0; i < n; i++) {
    t += random () % steps[random () % 4];
    if (random () % 40 == 0)
      t -= 5000;                /* the clock was set back */
    p[i] = (struct retain_point) {
      .number = 3 * i + 1, .time = t, .current = i == current,
      .pinned = random () % 20 == 0 };
  }
  return n;
}

static size_t
remove_dropped (struct retain_point *p, size_t n)
{
  size_t m = 0;

  for (size_t i = 0; i < n; i++)
    if (p[i].reasons)
      p[m++] = p[i];
  return m;
}

static void
test_properties (void)
{
  srandom (1);
  for (int round = 0; round < ROUNDS; round++) {
    struct retain_point p[POINTS_MAX], q[POINTS_MAX];
    struct retain_rule rule = {
      random () % 6, { random () % 8, random () % 8, random () % 4 } };
    struct retain_rule more = rule;
    size_t n = random_history (p), others = 0, kept = 0, m;

    retain_decide (&rule, p, n);
    for (size_t i = n; i-- > 0; ) {
      if ((p[i].current || p[i].pinned) && !p[i].reasons)
        fail ("property", "current or pinned was dropped");
      if (!p[i].current && others++ < rule.last && !p[i].reasons)
        fail ("property", "one of the last was dropped");
      kept += (p[i].reasons & ~RETAIN_PINNED) != 0;
    }
    if (kept > 1 + rule.last + rule.periods[0] + rule.periods[1] +
        rule.periods[2])
      fail ("property", "more were kept than the rule names");

    /* A rule that names more keeps all that this one does. */
    memcpy (q, p, sizeof q);
    if (random () % 2)
      more.last++;
    else
      more.periods[random () % RETAIN_PERIODS]++;
    retain_decide (&more, q, n);
    for (size_t i = 0; i < n; i++)
      if (p[i].reasons & ~q[i].reasons)
        fail ("property", "not monotone");

    /* To drop what is to be dropped changes nothing for the others. */
    memcpy (q, p, sizeof q);
    m = remove_dropped (q, n);
    retain_decide (&rule, q, m);
    if (remove_dropped (q, m) != m)
      fail ("property", "the second time drops more");
  }
}

int
main (void)
{
  test_parse ();
  test_table ();
  test_properties ();
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
