/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What disk.c, flush.c and pass.c share: a disk, its connections, its
 * passes.  How they work together is told at the top of disk.c.
 */
#ifndef NBDSYNC_PASS_H
#define NBDSYNC_PASS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "assemble.h"
#include "session.h"

enum pass_state {
  PASS_PENDING,                 /* its session record has not come */
  PASS_OPEN,
  PASS_CLOSED,                  /* all applied and flushed */
  PASS_FAILED,
  PASS_FENCED,                  /* ended by a newer session */
};

struct pass {
  uint64_t session;
  enum pass_state state;
  unsigned refs;                /* connections, disk->current, callers */
  unsigned busy;                /* threads at work on it without the lock */
  bool flushing;                /* a thread is closing it */
  bool told;                    /* why it takes nothing any more */
  bool warned;                  /* that it was not flushed */
  int error;                    /* errno for its clients, once it failed */
  struct frames frames;         /* not complete, or waiting for the record */
  struct intervals taken;       /* indices of frames that were applied */
  struct session_record record; /* unless pending */
  unsigned char *first;         /* frame 0 as it came: first_bytes of it */
  size_t first_bytes;
  unsigned char sum[16];        /* of what was applied, for the manifest */
  uint64_t data_bytes, wire_bytes;
  struct pass *next;            /* in disk->pending */
};

struct conn {
  struct disk *disk;
  struct pass *pass;            /* NULL: what came shows no session yet */
  struct frames nascent;        /*   and is here */
  bool failed;                  /* what came is no stream */
  bool closed;                  /* its pass was flushed; nothing came since */
  struct conn *next;
};

struct disk {
  char *name;                   /* export name, or base name of target= */
  pthread_mutex_t lock;         /* guards all below but image */
  pthread_cond_t changed;       /* busy, flushing, state of passes */
  struct conn *conns;
  struct pass *current;         /* the last one that was opened */
  struct pass *pending;         /* list; not referenced by it */
  strings messages;             /* to be logged without the lock */
  bool said;                    /* something, since a connection came */
  struct image image;           /* guarded by the session lock; its writer
                                 * also by current->busy */
  struct disk *next;
};

/* All of these are called with the disk's lock held, and may let go of it
 * for a while; they return -1 with errno set.
 */

/* Look for what can be done with a frame that got a piece: apply it, or
 * open the pass if it is the record.  With 'last' its checksum decides,
 * whatever has come.
 */
int pass_try (struct disk *d, struct pass *pass, struct partial *p,
              bool last);

/* The same for all of its frames. */
int pass_sweep (struct disk *d, struct pass *pass, bool last);

/* Write and commit what an open pass has, all frames being applied. */
int pass_close (struct disk *d, struct pass *pass);

/* Is it so that a client's record, 'n' bytes of it at 'at', is the one that
 * opened the pass?
 */
bool pass_same_record (const struct pass *pass, uint64_t at, const void *buf,
                       uint64_t n);

/* End a pass because of a frame: why, and error if not 0, are told.  Always
 * returns -1.
 */
int pass_fail (struct disk *d, struct pass *pass, uint64_t frame,
               const char *why, int error);

/* End it because of what was told before. */
int pass_fail_told (struct disk *d, struct pass *pass, int error);

/* The answer to whoever sends more to a pass that takes nothing. */
int pass_refuse (struct disk *d, struct pass *pass);

/* Queue a message about the disk for disk_tell. */
void disk_say (struct disk *d, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

struct pass *pass_new (uint64_t session);
void pass_unref (struct disk *d, struct pass *pass);

/* Bind a connection that is not, and move pieces that came on it (a set
 * taken from it, or its own) to the pass.
 */
void conn_bind (struct conn *c, struct pass *pass);
int conn_move (struct disk *d, struct conn *c, struct frames *from,
               struct pass *pass);

/* Log what was queued for the disk.  No lock of a disk is held. */
void disk_tell (struct disk *d);

/* Has that session been ended by a newer one? */
bool session_is_fenced (uint64_t session);

/* All disks, and the lock that makes sessions open and commit one at a
 * time.  Lock order: session_lock, a disk's lock, then those of the budget,
 * the temporary file, writers and storage.
 */
extern pthread_mutex_t session_lock;
extern struct disk *all_disks;  /* guarded by session_lock */
extern const struct session_ops *session_ops;

#endif /* NBDSYNC_PASS_H */
