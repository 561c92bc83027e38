/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The spool: the dirty blocks of all disks at one instant, copied by QEMU
 * into local qcow2 files, with the map of what was dirty.
 */
#ifndef NBDSYNC_SPOOL_H
#define NBDSYNC_SPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "disks.h"
#include "qmp.h"

/* The bitmap in a spool or map file. */
#define MAP_BITMAP "chg"

struct spool_disk {
  const struct disk *disk;
  const char *old_bitmap; /* what to copy; NULL: everything */
  const char *new_bitmap; /* added at the same instant; NULL: none */
  uint64_t granularity;   /* of the new bitmap and of the map */
  const char *path;       /* qcow2 file to make: absolute, in a private
                             directory; it is an error if it is there */
  const char *tag;        /* chain8, another one for each disk */
  uint64_t copied;        /* out: bytes that the job copied */
};

/* Take a spool of n disks.  It first removes what a dead run with the same
 * tags left (spool_settle), and reserves space for what it is going to copy.
 *  0: the files are complete and closed; with an
 * old_bitmap the plan is what is dirty in MAP_BITMAP and local, without
 * one it is all that is local (what is not local reads as zero).  The new
 * bitmaps are there.  *ret_ms (may be NULL): how long the transaction took,
 * which is what the guest may have been held.
 *
 * -1 with a message: nodes, jobs, bitmaps and files are as before, or, if
 * the connection was lost, left to spool_settle.  errno EFBIG: the
 * jobs would copy more than limit_bytes (0: no limit) in all; ENOSPC: the
 * file system has no room for it; ETIMEDOUT; ECANCELED: is_over (may be
 * NULL), which is asked all the while, said that nobody wants it any more.
 */
int spool_take (struct qmp *qmp, struct spool_disk *specs, size_t n,
                uint64_t limit_bytes, int timeout_ms, bool (*is_over) (void),
                unsigned *ret_ms);

/* Remove the jobs and nodes (not the bitmaps and files) that a dead run
 * with this tag left in QEMU: those of spools, map files and the flush.
 */
int spool_settle (struct qmp *qmp, const char *tag);

#endif /* NBDSYNC_SPOOL_H */
