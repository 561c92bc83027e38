/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two lists of runs become one.  Both are walked together, from each place
 * where one of them begins or ends to the next: in between, either list has
 * all or nothing.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "cleanup.h"
#include "log.h"
#include "runs.h"

/* A list, and the run of it that ends behind where we are. */
struct cursor {
  const struct runs *runs;
  struct run_pos pos;
  struct run run;
  bool more;                    /* 'run' is valid */
};

static void
advance (struct cursor *c, uint64_t offset)
{
  while (c->more && c->run.offset + c->run.length <= offset)
    c->more = runs_next (c->runs, &c->pos, &c->run);
}

static bool
covers (const struct cursor *c, uint64_t offset)
{
  return c->more && c->run.offset <= offset;
}

/* Where the list changes next, beyond 'offset'. */
static uint64_t
next_change (const struct cursor *c, uint64_t offset)
{
  if (!c->more)
    return UINT64_MAX;
  return c->run.offset > offset ? c->run.offset
                                : c->run.offset + c->run.length;
}

static int
combine (const struct runs *a, const struct runs *b, bool subtract,
         struct runs *ret)
{
  struct cursor x = { .runs = a, .more = true };
  struct cursor y = { .runs = b, .more = true };
  uint64_t offset = 0, start = 0;
  bool open = false;

  for (;;) {
    uint64_t change, other;
    bool wanted;

    advance (&x, offset);
    advance (&y, offset);
    wanted = subtract ? covers (&x, offset) && !covers (&y, offset)
                      : covers (&x, offset) || covers (&y, offset);
    if (wanted != open) {
      if (open && runs_append (ret, start, offset - start, 0) == -1)
        return -1;
      start = offset;
      open = wanted;
    }
    change = next_change (&x, offset);
    other = next_change (&y, offset);
    offset = change < other ? change : other;
    if (offset == UINT64_MAX)
      return 0;
  }
}

int
runs_union (const struct runs *a, const struct runs *b, struct runs *ret)
{
  return combine (a, b, false, ret);
}

int
runs_subtract (const struct runs *a, const struct runs *b, struct runs *ret)
{
  return combine (a, b, true, ret);
}

int
runs_write (const struct runs *runs, const char *path)
{
  CLEANUP_FILE FILE *fp = fopen (path, "we");
  struct run_pos pos = { 0 };
  struct run run;

  if (!fp) {
    log_error ("%s: %m", path);
    return -1;
  }
  while (runs_next (runs, &pos, &run))
    fprintf (fp, "%" PRIu64 " %" PRIu64 "\n", run.offset, run.length);
  if (fflush (fp) == 0 && !ferror (fp))
    return 0;
  log_error ("%s: %m", path);
  return -1;
}
