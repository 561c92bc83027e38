/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of decisions: each situation that a disk can be in.
 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decide.h"

#define SIZE 1048576

static const struct {
  const char *what;
  struct situation s;
  enum kind kind;
  const char *reason;           /* a part of it */
} table[] = {
  { "first sync", { .size = SIZE }, KIND_FULL, "no replica yet" },
  { "first sync, forced", { .force_full = true, .size = SIZE }, KIND_FULL,
    "no replica yet" },
  { "a stray bitmap does not make a replica",
    { .size = SIZE, .bitmap = BITMAP_GOOD, .dirty_bytes = 4096 },
    KIND_FULL, "no replica yet" },
  { "a new disk", { .generation = 3, .size = SIZE }, KIND_FULL,
    "does not have this disk" },
  { "dirty", { .generation = 3, .known = true, .replica_size = SIZE,
               .size = SIZE, .bitmap = BITMAP_GOOD, .dirty_bytes = 1 },
    KIND_INCREMENTAL, "what changed" },
  { "clean", { .generation = 3, .known = true, .replica_size = SIZE,
               .size = SIZE, .bitmap = BITMAP_GOOD },
    KIND_UNCHANGED, "nothing was written" },
  { "under a snapshot",
    { .generation = 3, .known = true, .replica_size = SIZE, .size = SIZE,
      .bitmap = BITMAP_GOOD, .below = true, .readable = true },
    KIND_INCREMENTAL, "a snapshot was taken" },
  { "under a snapshot, encrypted",
    { .generation = 3, .known = true, .replica_size = SIZE, .size = SIZE,
      .bitmap = BITMAP_GOOD, .below = true, .dirty_bytes = 1 },
    KIND_FULL, "cannot be read from outside" },
  { "of an older generation",
    { .generation = 3, .known = true, .replica_size = SIZE, .size = SIZE,
      .bitmap = BITMAP_GOOD, .older = true, .readable = true },
    KIND_INCREMENTAL, "of an older generation" },
  { "of an older generation, encrypted",
    { .generation = 3, .known = true, .replica_size = SIZE, .size = SIZE,
      .bitmap = BITMAP_GOOD, .older = true }, KIND_FULL,
    "cannot be read from outside" },
  { "of an older generation, of another size",
    { .generation = 3, .known = true, .replica_size = SIZE, .size = SIZE / 2,
      .bitmap = BITMAP_GOOD, .older = true, .below = true,
      .readable = true }, KIND_FULL, "has been shrunk" },
  { "below, inconsistent",
    { .generation = 3, .known = true, .replica_size = SIZE, .size = SIZE,
      .bitmap = BITMAP_INCONSISTENT, .below = true, .readable = true },
    KIND_FULL, "inconsistent" },
  { "forced", { .generation = 3, .known = true, .replica_size = SIZE,
                .size = SIZE, .bitmap = BITMAP_GOOD, .force_full = true },
    KIND_FULL, "--full" },
  { "grown", { .generation = 3, .known = true, .replica_size = SIZE,
               .size = 2 * SIZE, .bitmap = BITMAP_GOOD }, KIND_FULL,
    "has grown" },
  { "shrunk", { .generation = 3, .known = true, .replica_size = SIZE,
                .size = SIZE / 2, .bitmap = BITMAP_GOOD }, KIND_FULL,
    "has been shrunk" },
  { "QEMU was killed", { .generation = 3, .known = true,
                         .replica_size = SIZE, .size = SIZE,
                         .bitmap = BITMAP_INCONSISTENT }, KIND_FULL,
    "inconsistent" },
  { "disabled", { .generation = 3, .known = true, .replica_size = SIZE,
                  .size = SIZE, .bitmap = BITMAP_DISABLED }, KIND_FULL,
    "disabled" },
  { "another copy of the replica went on",
    { .generation = 3, .known = true, .replica_size = SIZE, .size = SIZE,
      .can_persist = true, .forked = true }, KIND_FULL,
    "older than what the source remembers" },
  { "another copy went on, whatever the bitmap seems to be",
    { .generation = 3, .known = true, .replica_size = SIZE, .size = SIZE,
      .forked = true, .bitmap = BITMAP_GOOD, .dirty_bytes = 1 },
    KIND_FULL, "older than what the source remembers" },
  { "a copy",
    { .generation = 3, .known = true, .replica_size = SIZE, .size = SIZE,
      .copied = true, .bitmap = BITMAP_GOOD, .dirty_bytes = 1 },
    KIND_FULL, "the replica is a copy" },
  { "gone, qcow2", { .generation = 3, .known = true, .replica_size = SIZE,
                     .size = SIZE, .can_persist = true }, KIND_FULL,
    "no bitmap of the replica's generation" },
  { "gone, raw", { .generation = 3, .known = true, .replica_size = SIZE,
                   .size = SIZE }, KIND_FULL, "cannot keep a bitmap" },
};

int
main (void)
{
  int failed = 0;

  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct decision d = decide (&table[i].s);

    if (d.kind != table[i].kind || !strstr (d.reason, table[i].reason)) {
      fprintf (stderr, "%s: %s, %s\n", table[i].what, kind_name (d.kind),
               d.reason);
      failed = 1;
    }
  }
  return failed;
}
