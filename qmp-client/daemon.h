/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A private qemu-storage-daemon of ours for images that no machine has
 * open, with a QMP connection over a socketpair: nobody else can reach it.
 */
#ifndef NBDSYNC_DAEMON_H
#define NBDSYNC_DAEMON_H

#include <stddef.h>

#include "process.h"
#include "qmp.h"

struct daemon {
  struct process process;
  struct qmp *qmp;              /* NULL when it has ended */
};

struct daemon_image {
  const char *file;
  const char *node;             /* node name to give it, at most 31 bytes */
  const char *format;           /* NULL: as qemu-img probes it */
};

/* Start it and open the images read-write, the format of each as probed
 * by qemu-img (n may be 0: a bare daemon).  -1 with a message, and nothing
 * runs; errno EBUSY if another process uses an image.
 */
int daemon_start (struct daemon *d, const struct daemon_image *images,
                  size_t n);

/* End it cleanly, so that its bitmaps are stored.  -1 with a message if it
 * did not end so.  Does nothing if it is not running.
 */
int daemon_quit (struct daemon *d);

/* End it without ceremony: bitmaps of this run may be lost. */
void daemon_kill (struct daemon *d);

#endif /* NBDSYNC_DAEMON_H */
