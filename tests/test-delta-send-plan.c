/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The plan, as a unit: whatever extents go in, the batches cover them all,
 * in order and once, within the bounds of a batch; and what of a frame was
 * read is counted right.
 */
#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "frames.h"
#include "plan.h"

static uint64_t
random_length (void)
{
  switch (random () % 4) {
  case 0: return 1 + random () % 5000;
  case 1: return 512 * (1 + random () % 100);
  case 2: return 65536;
  default: return UINT64_C (4096) * (1 + random () % 5000);
  }
}

/* Check batch k; returns how many of the merged input extents it ends. */
static void
check_batches (const struct plan *plan, const extents *want)
{
  extents got = { 0 };
  size_t at = 0;                /* in want */
  uint64_t done = 0;            /* of it */

  for (uint64_t k = 1; k <= plan->nr_batches; k++) {
    uint64_t data = 0, pieces = 0;

    got.len = 0;
    assert (plan_batch (plan, k, &got) == 0);
    assert (got.len > 0 && got.len <= plan_extents_max (plan->batch_bytes));
    for (size_t i = 0; i < got.len; i++) {
      const struct extent *g = &got.ptr[i], *w = &want->ptr[at];

      assert (g->kind == w->kind && g->length > 0);
      assert (g->offset == w->offset + done);
      assert (g->length <= w->length - done);
      done += g->length;
      if (done == w->length) {
        at++;
        done = 0;
      }
      pieces++;
      if (g->kind == EXTENT_DATA) {
        data += g->length;
        pieces += g->length / ZERO_BLOCK_BYTES + 1;
      }
    }
    assert (data <= plan->batch_bytes);
    assert (pieces <= plan_built_extents_max (plan->batch_bytes));
  }
  assert (at == want->len && done == 0);
  extents_reset (&got);
}

static void
test_random_plans (void)
{
  for (unsigned round = 0; round < 40; round++) {
    static const uint32_t sizes[] = { 65536, 100000, 4 << 20, 32 << 20 };
    struct plan plan;
    extents want = { 0 };
    uint64_t offset = 0, data = 0;
    unsigned n = random () % 60000;

    plan_init (&plan, sizes[random () % 4]);
    for (unsigned i = 0; i < n; i++) {
      struct extent e = { .length = random_length () };
      struct extent *last = want.len > 0 ? &want.ptr[want.len - 1] : NULL;

      offset += random () % 3 ? random_length () : 0;
      e.offset = offset;
      e.kind = random () % 2 ? EXTENT_DATA : EXTENT_ZERO;
      offset += e.length;
      assert (plan_append (&plan, e.offset, e.length, e.kind) == 0);
      if (e.kind == EXTENT_DATA)
        data += e.length;
      if (last && last->kind == e.kind &&
          last->offset + last->length == e.offset)
        last->length += e.length;
      else
        assert (extents_append (&want, e) == 0);
    }
    assert (plan_finish (&plan) == 0);
    assert (plan.data_bytes == data);
    check_batches (&plan, &want);
    plan_reset (&plan);
    extents_reset (&want);
  }
}

/* A disk of 8 TiB, all data: the list stays small. */
static void
test_large_plan (void)
{
  struct plan plan;
  extents got = { 0 };

  plan_init (&plan, 4 << 20);
  assert (plan_append (&plan, 0, UINT64_C (8) << 40, EXTENT_DATA) == 0);
  assert (plan_finish (&plan) == 0);
  assert (plan.nr_batches == 1 << 21);
  assert (plan.runs.bytes.len < 16 << 20);
  assert (plan_batch (&plan, 1 << 21, &got) == 0);
  assert (got.len == 1 && got.ptr[0].length == 4 << 20 &&
          got.ptr[0].offset == (UINT64_C (8) << 40) - (4 << 20));
  extents_reset (&got);
  plan_reset (&plan);
}

/* All of a frame has been read when every byte has, in whatever pieces. */
static void
test_mark_read (void)
{
  for (unsigned round = 0; round < 200; round++) {
    struct frame f = { .length = 1 + random () % 500 };
    bool read[500] = { false };
    bool all = false;

    while (!all) {
      uint32_t start = random () % f.length;
      uint32_t end = start + 1 + random () % (f.length - start);

      for (uint32_t i = start; i < end; i++)
        read[i] = true;
      all = true;
      for (uint32_t i = 0; i < f.length; i++)
        all &= read[i];
      assert (frame_mark_read (&f, start, end) == all);
    }
    intervals_reset (&f.read);
  }
}

int
main (void)
{
  srandom (1);
  test_random_plans ();
  test_large_plan ();
  test_mark_read ();
  return 0;
}
