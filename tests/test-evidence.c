/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which bitmap of a backing chain proves a sync.
 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bitmaps.h"
#include "evidence.h"

#define CHAIN "01234567-89ab-4cde-8f01-23456789abcd"
#define SIZE 1048576

enum { GOOD = 1, DISABLED, INCONSISTENT };

static const uint64_t history[] = { 6, 5, 2 };

/* Images from the active one down; each has the bitmaps of generations. */
static const struct {
  const char *what;
  struct {
    uint64_t generation;
    int state;
    int layer;
  } bitmaps[4];
  int layers;                   /* below the active one */
  int odd_layer;                /* is of another size; 0: none */
  enum bitmap_state state;      /* expected */
  uint64_t generation;
  unsigned above;
} table[] = {
  { "nothing", .state = BITMAP_ABSENT },
  { "as always", .bitmaps = { { 7, GOOD, 0 } }, .state = BITMAP_GOOD,
    .generation = 7 },
  { "under a snapshot", .bitmaps = { { 7, GOOD, 1 } }, .layers = 1,
    .state = BITMAP_GOOD, .generation = 7, .above = 1 },
  { "under three", .bitmaps = { { 7, GOOD, 3 } }, .layers = 4,
    .state = BITMAP_GOOD, .generation = 7, .above = 3 },
  { "the nearest of two", .bitmaps = { { 7, GOOD, 2 }, { 7, GOOD, 1 } },
    .layers = 2, .state = BITMAP_GOOD, .generation = 7, .above = 1 },
  { "a disabled one does not hide a good one",
    .bitmaps = { { 7, DISABLED, 0 }, { 7, GOOD, 1 } }, .layers = 1,
    .state = BITMAP_GOOD, .generation = 7, .above = 1 },
  { "committed: an older one is at the top",
    .bitmaps = { { 6, GOOD, 0 } }, .state = BITMAP_GOOD, .generation = 6 },
  { "the replica's generation before an older one that is nearer",
    .bitmaps = { { 6, GOOD, 0 }, { 7, GOOD, 1 } }, .layers = 1,
    .state = BITMAP_GOOD, .generation = 7, .above = 1 },
  { "the newest of the older ones",
    .bitmaps = { { 2, GOOD, 0 }, { 5, GOOD, 1 } }, .layers = 1,
    .state = BITMAP_GOOD, .generation = 5, .above = 1 },
  { "an older one that is not in the history",
    .bitmaps = { { 4, GOOD, 0 } }, .state = BITMAP_ABSENT },
  { "a later one", .bitmaps = { { 8, GOOD, 0 } }, .state = BITMAP_ABSENT },
  { "inconsistent", .bitmaps = { { 7, INCONSISTENT, 0 } },
    .state = BITMAP_INCONSISTENT, .generation = 7 },
  { "disabled below", .bitmaps = { { 7, DISABLED, 1 } }, .layers = 1,
    .state = BITMAP_DISABLED, .generation = 7, .above = 1 },
  { "an inconsistent one and a good older one",
    .bitmaps = { { 7, INCONSISTENT, 0 }, { 5, GOOD, 1 } }, .layers = 1,
    .state = BITMAP_GOOD, .generation = 5, .above = 1 },
  { "older ones that are not good",
    .bitmaps = { { 6, INCONSISTENT, 0 }, { 5, DISABLED, 1 } }, .layers = 1,
    .state = BITMAP_ABSENT },
  { "an image of another size", .bitmaps = { { 7, GOOD, 1 } }, .layers = 1,
    .odd_layer = 1, .state = BITMAP_ABSENT },
  { "below an image of another size", .bitmaps = { { 7, GOOD, 2 } },
    .layers = 2, .odd_layer = 1, .state = BITMAP_ABSENT },
};

static int
check (size_t i)
{
  static char node_names[][8] = { "top", "b1", "b2", "b3", "b4" };
  struct disk disk = { .node = node_names[0], .size = SIZE };
  char names[4][BITMAP_NAME_MAX];
  struct evidence e;
  int failed;

  for (int l = 1; l <= table[i].layers; l++) {
    struct layer layer = {
      .node = node_names[l], .size = l == table[i].odd_layer ? 4096 : SIZE };

    if (backing_layers_append (&disk.backing, layer) == -1)
      abort ();
  }
  for (size_t b = 0; b < 4 && table[i].bitmaps[b].state; b++) {
    int state = table[i].bitmaps[b].state, layer = table[i].bitmaps[b].layer;
    struct bitmap bitmap = {
      .name = names[b], .recording = state != DISABLED,
      .inconsistent = state == INCONSISTENT,
    };

    bitmap_name (CHAIN, table[i].bitmaps[b].generation, 0, names[b]);
    if (bitmaps_append (layer == 0 ? &disk.bitmaps
                                   : &disk.backing.ptr[layer - 1].bitmaps,
                        bitmap) == -1)
      abort ();
  }

  e = evidence_find (&disk, CHAIN, 7, history, 3);
  failed = e.state != table[i].state || e.above != table[i].above ||
    (e.state != BITMAP_ABSENT &&
     (e.generation != table[i].generation ||
      strcmp (e.node, node_names[e.above]) != 0));
  if (failed)
    fprintf (stderr, "%s: state %d, generation %d, %u above\n",
             table[i].what, e.state, (int) e.generation, e.above);

  for (size_t l = 0; l < disk.backing.len; l++)
    bitmaps_reset (&disk.backing.ptr[l].bitmaps);
  backing_layers_reset (&disk.backing);
  bitmaps_reset (&disk.bitmaps);
  return failed;
}

int
main (void)
{
  int failed = 0;

  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    failed |= check (i);
  return failed;
}
