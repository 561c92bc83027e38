/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The plan is one compact list of runs (runs.h) in which an extent is
 * split where a batch ends; the flags of a run say its kind and whether a
 * batch starts with it.  Each 4th start is kept in a table, so that a
 * batch is found without reading the list from its beginning: 8 TiB of
 * data in 4 MiB batches are 8 MiB of runs and 8 MiB of table.
 *
 * How many extents can a batch get when zero runs are dropped?  A data
 * extent is looked at in blocks of ZERO_BLOCK_BYTES of the disk; with n
 * whole blocks it has at most n + 2 pieces.  So of P planned extents come
 * at most batch_bytes / ZERO_BLOCK_BYTES + 2 * P.  P grows with the batch,
 * so that the tables of small batches do not take more than their data.
 *
 * No locks: a finished plan does not change.
 */
#include <config.h>

#include <assert.h>

#include "log.h"
#include "plan.h"

#define CHECKPOINT_BATCHES 4

enum { RUN_ZERO = 1, RUN_STARTS_BATCH = 2 };

#define EXTENT_DATA_BYTES 256   /* of a batch, for each planned extent */
#define PLAN_EXTENTS_MAX 16384

_Static_assert (BATCH_MAX_BYTES / ZERO_BLOCK_BYTES + 2 * PLAN_EXTENTS_MAX <=
                EXTENTS_MAX, "a batch can get too many extents");

uint32_t
plan_extents_max (uint32_t batch_bytes)
{
  uint32_t n = batch_bytes / EXTENT_DATA_BYTES;

  return n < PLAN_EXTENTS_MAX ? n : PLAN_EXTENTS_MAX;
}

uint32_t
plan_built_extents_max (uint32_t batch_bytes)
{
  return batch_bytes / ZERO_BLOCK_BYTES + 2 * plan_extents_max (batch_bytes);
}

uint32_t
plan_built_bytes_max (uint32_t batch_bytes)
{
  return batch_bytes + plan_built_extents_max (batch_bytes) * EXTENT_BYTES;
}

void
plan_init (struct plan *plan, uint32_t batch_bytes)
{
  *plan = (struct plan) { .batch_bytes = batch_bytes };
}

void
plan_reset (struct plan *plan)
{
  runs_reset (&plan->runs);
  run_positions_reset (&plan->checkpoints);
  memset (plan, 0, sizeof *plan);
}

/* Append a run that does not cross the end of a batch. */
static int
append_run (struct plan *plan, const struct extent *e, bool starts_batch)
{
  unsigned flags = (e->kind == EXTENT_ZERO ? RUN_ZERO : 0) |
                   (starts_batch ? RUN_STARTS_BATCH : 0);

  if (starts_batch) {
    struct run_pos here = { .byte = plan->runs.bytes.len,
                            .end = plan->runs.end };

    if (plan->nr_batches % CHECKPOINT_BATCHES == 0 &&
        run_positions_append (&plan->checkpoints, here) == -1)
      goto no_memory;
    plan->nr_batches++;
    plan->data_room = plan->batch_bytes;
    plan->extent_room = plan_extents_max (plan->batch_bytes);
  }
  if (runs_append (&plan->runs, e->offset, e->length, flags) == -1)
    goto no_memory;
  plan->extent_room--;
  if (e->kind == EXTENT_DATA) {
    plan->data_room -= e->length;
    plan->data_bytes += e->length;
  }
  else
    plan->zero_bytes += e->length;
  return 0;

 no_memory:
  log_error ("the plan: out of memory");
  return -1;
}

/* Cut the extent that has stopped growing into batches. */
static int
append_pending (struct plan *plan)
{
  struct extent e = plan->pending;

  plan->pending.length = 0;
  while (e.length > 0) {
    bool starts_batch = plan->nr_batches == 0 || plan->extent_room == 0;
    struct extent piece = e;

    if (e.kind == EXTENT_DATA) {
      uint32_t room = starts_batch ? plan->batch_bytes : plan->data_room;

      if (e.length > room) {
        /* Cut at a block of the disk, so that zero blocks stay whole. */
        uint64_t cut = (e.offset + room) & -(uint64_t) ZERO_BLOCK_BYTES;

        if (cut <= e.offset) {
          starts_batch = true;
          cut = (e.offset + plan->batch_bytes) & -(uint64_t) ZERO_BLOCK_BYTES;
        }
        if (piece.length > cut - e.offset)
          piece.length = cut - e.offset;
      }
    }
    if (append_run (plan, &piece, starts_batch) == -1)
      return -1;
    e.offset += piece.length;
    e.length -= piece.length;
  }
  return 0;
}

int
plan_append (struct plan *plan, uint64_t offset, uint64_t length,
             enum extent_kind kind)
{
  struct extent *p = &plan->pending;

  if (p->length > 0 && p->kind == kind && p->offset + p->length == offset) {
    p->length += length;
    return 0;
  }
  if (append_pending (plan) == -1)
    return -1;
  *p = (struct extent) { .offset = offset, .length = length, .kind = kind };
  return 0;
}

int
plan_finish (struct plan *plan)
{
  return append_pending (plan);
}

int
plan_batch (const struct plan *plan, uint64_t k, extents *ret)
{
  struct run_pos pos;
  struct run run;
  uint64_t at;

  assert (k >= 1 && k <= plan->nr_batches);
  at = (k - 1) / CHECKPOINT_BATCHES;
  pos = plan->checkpoints.ptr[at];
  at *= CHECKPOINT_BATCHES;     /* now: batches that have started */

  while (runs_next (&plan->runs, &pos, &run)) {
    if (run.flags & RUN_STARTS_BATCH)
      at++;
    if (at > k)
      break;
    if (at == k &&
        extents_append (ret, (struct extent) {
            .offset = run.offset, .length = run.length,
            .kind = run.flags & RUN_ZERO ? EXTENT_ZERO : EXTENT_DATA }) == -1) {
      log_error ("batch %llu: out of memory", (unsigned long long) k);
      return -1;
    }
  }
  return 0;
}
