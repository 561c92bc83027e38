/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Disks and their connections, as nbdkit's callbacks see them.  Functions
 * that return int: 0, or -1 with errno set (ENOSPC, ENOMEM or EIO) and at
 * most one message for each thing that went wrong.
 */
#ifndef NBDSYNC_DISK_H
#define NBDSYNC_DISK_H

#include <stdint.h>

#include "session.h"

struct conn;

/* Which kind of sessions, before the first connection. */
void disks_init (const struct session_ops *ops);

/* A connection to a disk.  NULL with a message. */
struct conn *disk_connect (const char *name);
void disk_disconnect (struct conn *c);

/* Take pieces of a stream, zeroes if buf is NULL. */
int disk_write (struct conn *c, uint64_t offset, const void *buf,
                uint64_t n);

int disk_flush (struct conn *c);

/* Close everything; no connection is served any more. */
void disks_cleanup (void);

#endif /* NBDSYNC_DISK_H */
