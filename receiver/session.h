/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sessions: what a stream may be applied to, and when it is committed.
 * There are two kinds of target, a replica directory (session-dir.c) and
 * one image in place (session-file.c); disk.c drives either.
 *
 * All functions are called with disk.c's session lock held, one at a time.
 * They return -1 with a message.
 */
#ifndef NBDSYNC_SESSION_H
#define NBDSYNC_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "replica.h"
#include "session-record.h"
#include "writer.h"

struct config {
  char *dir, *target;           /* one of them; absolute */
  const char *format;           /* of the target; NULL: as it is */
  size_t buffer;
  unsigned depth;
  int lock_fd;                  /* -1: none was given */
};

/* What a disk is written to, in the session that is open. */
struct image {
  const char *name;             /* of the disk, for messages; not owned */
  unsigned id;                  /* of its export (storage.h) */
  uint64_t session;             /* valid if passes > 0 or writer */
  uint64_t passes;              /* that were closed */
  struct writer *writer;        /* NULL: it is not open */
  struct replica_disk entry;    /* for the manifest, as far as it goes */
};

/* Stop writing, close the image.  Does nothing if it is not open. */
int image_close (struct image *image);

struct session_ops {
  /* Before nbdkit forks: take the lock, look at the target.  *ret_lock is
   * the descriptor that holds the lock.
   */
  int (*prepare) (const struct config *config, int *ret_lock);

  /* May the pass that this record opens come, through this export?  Opens
   * the session if it is a new one: then all others have ended.
   */
  int (*admit) (const char *export, const struct session_record *record,
                uint64_t session);

  /* Make or open the image for a pass that was admitted. */
  int (*open) (struct image *image, const struct session_record *record);

  /* The pass is written, durably.  1: it was the last one of the session,
   * which is to be committed once all images are closed.
   */
  int (*close_pass) (struct image *image,
                     const struct session_record *record);

  int (*commit) (void);

  void (*cleanup) (void);
};

extern const struct session_ops session_dir_ops, session_file_ops;

/* The configuration, set before prepare. */
extern struct config config;

#endif /* NBDSYNC_SESSION_H */
