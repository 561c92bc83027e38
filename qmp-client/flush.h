/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Make QEMU write what it caches of an image's metadata, so that a reader
 * of the file sees it.
 */
#ifndef NBDSYNC_FLUSH_H
#define NBDSYNC_FLUSH_H

#include "disks.h"
#include "qmp.h"

/* Flush one disk.  *ret_ms (may be NULL) is how long the guest may have
 * been held by it.  -1 with a message; errno is EOPNOTSUPP if this QEMU
 * gives no way: the image must not be read from outside then, take a spool.
 */
int flush_disk (struct qmp *qmp, const struct disk *disk, const char *tag,
                unsigned *ret_ms);

/* Remove what a dead run's flush left in a storage daemon. */
int flush_settle (struct qmp *qmp, const char *tag);

#endif /* NBDSYNC_FLUSH_H */
