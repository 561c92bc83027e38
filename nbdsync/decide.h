/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Full, incremental or unchanged: what a disk needs, from what the replica
 * and the source know.  One pure function.
 */
#ifndef NBDSYNC_DECIDE_H
#define NBDSYNC_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

enum kind { KIND_UNCHANGED, KIND_INCREMENTAL, KIND_FULL };

/* A bitmap "since a generation of the replica" at the source. */
enum bitmap_state {
  BITMAP_ABSENT,
  BITMAP_GOOD,                  /* recording, consistent */
  BITMAP_INCONSISTENT,          /* QEMU was killed while it was open */
  BITMAP_DISABLED,              /* somebody stopped it */
};

struct situation {
  bool force_full;
  uint64_t generation;          /* the replica's; 0: it has none */
  bool known;                   /* the replica has this disk */
  uint64_t replica_size, size;  /* bytes */
  bool can_persist;             /* its bitmaps outlive QEMU */
  bool copied;                  /* another copy of the replica may have used
                                   the same names of bitmaps */
  bool forked;                  /* one did: there is a bitmap of the chain
                                   with a number that was never given here */
  enum bitmap_state bitmap;     /* the best that was found */
  bool below;                   /* it is in an image below the active one */
  bool older;                   /* it is of an older generation, but what the
                                   replica changed since is known */
  bool readable;                /* from outside: where images and bitmaps can
                                   be put together */
  uint64_t dirty_bytes;         /* of a good bitmap */
};

struct decision {
  enum kind kind;
  const char *reason;           /* a constant, for people: why this kind */
};

struct decision decide (const struct situation *s);

const char *kind_name (enum kind kind);

#endif /* NBDSYNC_DECIDE_H */
