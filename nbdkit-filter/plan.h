/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The plan of a pass: what of the disk is sent, as data or as "zero this
 * range", cut into batches.  The cut depends on the plan alone, so a batch
 * can be made again and is the same.
 */
#ifndef NBDSYNC_PLAN_H
#define NBDSYNC_PLAN_H

#include "frame.h"
#include "runs.h"

DEFINE_VECTOR (run_positions, struct run_pos)

struct plan {
  uint32_t batch_bytes;         /* most data in a batch */
  struct runs runs;             /* flags: see plan.c */
  run_positions checkpoints;    /* where each 4th batch starts */
  uint64_t nr_batches;
  uint64_t data_bytes, zero_bytes;
  /* While it is made: the extent that may still grow, and the room that
   * is left in the last batch.
   */
  struct extent pending;
  uint32_t data_room, extent_room;
};

/* The most extents that a batch has in the plan; and the most extents and
 * bytes when it is built, since zero runs split extents.
 */
uint32_t plan_extents_max (uint32_t batch_bytes);
uint32_t plan_built_extents_max (uint32_t batch_bytes);
uint32_t plan_built_bytes_max (uint32_t batch_bytes);

/* Append extents in ascending order, then finish.  -1 with a message if
 * out of memory.
 */
void plan_init (struct plan *plan, uint32_t batch_bytes);
int plan_append (struct plan *plan, uint64_t offset, uint64_t length,
                 enum extent_kind kind);
int plan_finish (struct plan *plan);
void plan_reset (struct plan *plan);

/* Append the extents of batch k (1 .. nr_batches) to *ret.  Thread-safe
 * once the plan is finished.  -1 with a message if out of memory.
 */
int plan_batch (const struct plan *plan, uint64_t k, extents *ret);

#endif /* NBDSYNC_PLAN_H */
