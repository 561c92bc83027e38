/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Union and difference of lists of runs, against arrays of booleans.
 */
#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "runs.h"

#define UNITS 200
#define UNIT_BYTES 512
#define ROUNDS 20000

static void
make (unsigned *seed, bool bits[UNITS], struct runs *ret)
{
  /* From scattered single units to a few long runs. */
  int change = 1 + rand_r (seed) % 40;
  bool on = rand_r (seed) % 2;

  for (int i = 0; i < UNITS; i++) {
    if (rand_r (seed) % change == 0)
      on = !on;
    bits[i] = on;
  }
  for (int i = 0, j; i < UNITS; i = j) {
    for (j = i + 1; j < UNITS && bits[j] == bits[i]; j++)
      ;
    /* Now and then in two neighbouring pieces. */
    if (bits[i] && j - i > 1 && rand_r (seed) % 4 == 0) {
      assert (runs_append (ret, i * UNIT_BYTES, UNIT_BYTES, 0) == 0);
      i++;
    }
    if (bits[i])
      assert (runs_append (ret, i * UNIT_BYTES, (j - i) * UNIT_BYTES, 0) == 0);
  }
}

static void
check (const struct runs *runs, const bool want[UNITS])
{
  bool got[UNITS] = { false };
  struct run_pos pos = { 0 };
  uint64_t end = 0;
  struct run run;

  while (runs_next (runs, &pos, &run)) {
    assert (run.offset > end || end == 0); /* neighbours are one */
    end = run.offset + run.length;
    for (uint64_t i = run.offset / UNIT_BYTES; i < end / UNIT_BYTES; i++)
      got[i] = true;
  }
  for (int i = 0; i < UNITS; i++)
    if (got[i] != want[i]) {
      fprintf (stderr, "unit %d: %d\n", i, got[i]);
      abort ();
    }
}

int
main (int argc, char *argv[])
{
  unsigned seed = argc > 1 ? strtoul (argv[1], NULL, 10) : 1;

  for (int round = 0; round < ROUNDS; round++) {
    bool a[UNITS], b[UNITS], want[UNITS];
    struct runs x = { 0 }, y = { 0 }, both = { 0 }, rest = { 0 };

    make (&seed, a, &x);
    make (&seed, b, &y);
    assert (runs_union (&x, &y, &both) == 0);
    assert (runs_subtract (&x, &y, &rest) == 0);
    for (int i = 0; i < UNITS; i++)
      want[i] = a[i] || b[i];
    check (&both, want);
    for (int i = 0; i < UNITS; i++)
      want[i] = a[i] && !b[i];
    check (&rest, want);
    runs_reset (&x);
    runs_reset (&y);
    runs_reset (&both);
    runs_reset (&rest);
  }
  return 0;
}
