/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A replica directory: generations, the commit, the lock.  The layout and
 * the files are in nbdsync-formats(5).  Plain C without nbdkit: the plugin
 * delta-recv and the nbdsync command both link it.
 *
 * The lock is the caller's: replica_lock first, then replica_open with
 * REPLICA_WRITE.  A process that was given the lock by its parent
 * (lock-fd=N) checks it with replica_lock_check.  A struct replica belongs
 * to one thread at a time; two processes under one lock may each have one,
 * as long as only one of them has a session in work: what counts is on the
 * disk, and replica_join_session and replica_commit look there.
 *
 * Functions that return int: 0, or -1 with a message unless it says so.
 */
#ifndef NBDSYNC_REPLICA_H
#define NBDSYNC_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "session-record.h"
#include "vector.h"

#define GENERATION_MAX (UINT64_C (1) << 53)
#define SESSION_CHARS 16        /* a session id as hexadecimal digits */

struct replica_disk {
  char name[DISK_NAME_MAX + 1];
  char chain[UUID_CHARS + 1];
  uint64_t size;                /* virtual size in bytes */
  uint64_t base;                /* generation of the image that its image is
                                 * an overlay on; 0: it stands alone */
  uint64_t frames;              /* of all passes, without frames 0 */
  unsigned char sum[16];        /* XOR of the sums of all these frames */
  uint64_t data_bytes;          /* data written */
  uint64_t wire_bytes;          /* packed frames with their envelopes */
  uint64_t image_bytes;         /* of its file, and when that was last */
  uint64_t image_mtime_ns;      /*   modified: set by replica_commit */
  char *source;                 /* of the session record; owned, or NULL */
};
DEFINE_VECTOR (replica_disks, struct replica_disk)

struct manifest {
  uint64_t generation;          /* > 0 */
  uint64_t base;                /* the largest base of its disks */
  uint64_t time;                /* of the commit, seconds since the Epoch */
  uint64_t session;             /* id of the session that made it */
  replica_disks disks;          /* owned */
};

void manifest_reset (struct manifest *m);

/* The disk of that name, or NULL. */
const struct replica_disk *manifest_disk (const struct manifest *m,
                                          const char *name);

/* Take the lock of DIR, waiting up to timeout_ms for it; if 'create', make
 * DIR (0700, not its parents) and its lock file as needed.  The lock is held
 * as long as *ret_fd (close-on-exec), or a descriptor inherited from it, is
 * open anywhere.  -1 with errno EBUSY and no message if somebody else has
 * it; -1 with errno ENOENT and no message if there is no replica and
 * 'create' is false.
 */
int replica_lock (const char *dir, bool create, int timeout_ms, int *ret_fd);

/* Is this inherited descriptor the lock of DIR, and held?  Makes it
 * close-on-exec.
 */
int replica_lock_check (const char *dir, int fd);

enum replica_access {
  REPLICA_READ,                 /* no lock needed, nothing is changed */
  REPLICA_WRITE,                /* settles an interrupted commit first */
  REPLICA_CREATE,               /* the same, and makes what is missing */
};

struct replica;                 /* an opened DIR */

/* NULL with a message; with errno ENOENT and no message if 'access' is not
 * REPLICA_CREATE and there is no replica in DIR.
 */
struct replica *replica_open (const char *dir, enum replica_access access);
void replica_close (struct replica *r);

/* The current generation; NULL: there is none yet.  Valid until the next
 * replica_reload, replica_commit or replica_close.
 */
const struct manifest *replica_current (const struct replica *r);

/* Who this replica is. */
struct replica_identity {
  char id[UUID_CHARS + 1];      /* "" if it was never opened for writing; a
                                   copy of the directory gets another one */
  uint64_t last;                /* number that was given to a generation */
  uint64_t copied;              /* the last number that another copy may have
                                   given as well; 0: there is none */
};

/* -1 with a message. */
int replica_identity (const struct replica *r, struct replica_identity *ret);

/* Read it again, after another process (a receiver of ours) committed. */
int replica_reload (struct replica *r);

/* The same after that process may have died in its commit, which is finished
 * first if it came far enough.
 */
int replica_settle (struct replica *r);

/* When the replica was last known to equal its source: the time of the
 * current generation, or a later one of checked.json; 0: never.
 */
uint64_t replica_checked_time (const struct replica *r);

/* Nothing had changed at 'time': write that into checked.json. */
int replica_checked (struct replica *r, uint64_t time);

/* Open a session: give it the number of the generation that it makes,
 * durably and never again, and discard what an older one left in
 * generations/incoming.  From here on any older session is fenced: it
 * cannot be joined and cannot commit.
 */
int replica_open_session (struct replica *r, uint64_t session,
                          uint64_t *ret_target);

/* For the receiver of a stream: the session of its frame 0.  If it is the
 * one that is open and 'target' is its number or 0, that is the answer.  If
 * another or none is open and 'target' is 0, open it.  Else refuse.
 */
int replica_join_session (struct replica *r, uint64_t session,
                          uint64_t target, uint64_t *ret_target);

/* End the open session, if there is one, and remove what it staged. */
int replica_discard_incoming (struct replica *r);

/* The image of a disk in a generation, or in the open session for
 * generation 0, as an absolute path that the caller frees.  NULL with a
 * message.
 */
char *replica_image (const struct replica *r, uint64_t generation,
                     const char *disk);

/* Append the images of a disk of the current generation to *ret_images,
 * from the top of the chain of overlays down to the one that stands alone.
 * Each is compared with the fingerprint (size, time of modification) in its
 * manifest: an image that was changed behind our back is refused.
 */
int replica_images (const struct replica *r, const char *disk,
                    strings *ret_images);

/* Make what is staged in generations/incoming the current generation: sync
 * all images, write the manifest, rename incoming to its number, switch
 * 'current', add a line to the journal; each step durable before the next.
 * m->session must be the open session, m->generation its number, and each
 * disk must have its image there, closed.  Sets image_bytes and
 * image_mtime_ns of the disks; base images are checked as by
 * replica_images.  On failure the old generation is current; only if the
 * last sync failed it may be the new one, and replica_reload tells.
 */
int replica_commit (struct replica *r, struct manifest *m);

#endif /* NBDSYNC_REPLICA_H */
