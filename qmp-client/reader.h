/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Serve an image file from outside its QEMU: a private read-only
 * qemu-storage-daemon with one NBD export on a unix socket.
 */
#ifndef NBDSYNC_READER_H
#define NBDSYNC_READER_H

#include <stdbool.h>
#include <jansson.h>

#include "disks.h"
#include "process.h"

#define READER_EXPORT "disk"

struct reader_spec {
  const char *driver;           /* "qcow2", "raw" */
  const char *filename;
  bool running;                 /* a machine may have it open: no locks,
                                   no cache */
  const backing_layers *backing; /* running qcow2: what it builds on, as the
                                   machine has it; NULL: nothing */
  const char *bitmap;           /* exported as qemu:dirty-bitmap:NAME */
  bool allocation_depth;        /* exported as qemu:allocation-depth */
};

/* Start it; when this returns 0, 'socket' can be connected to (any number
 * of connections, export READER_EXPORT).  -1 with a message.
 */
int reader_start (struct process *p, const struct reader_spec *spec,
                  const char *socket);

/* End it and remove the socket. */
void reader_stop (struct process *p, const char *socket);

/* The node to open: what reader_start passes as --blockdev.  A new
 * reference, NULL with a message.
 */
json_t *reader_blockdev (const struct reader_spec *spec);

#endif /* NBDSYNC_READER_H */
