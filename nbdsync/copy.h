/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The copies of one pass: an nbdcopy for each disk, side by side.
 */
#ifndef NBDSYNC_COPY_H
#define NBDSYNC_COPY_H

#include <stdint.h>

#include "process.h"
#include "vector.h"

struct copy {
  const char *disk;             /* not owned */
  char *from, *to;              /* URIs; owned */
  struct process process;
  int err_fd;                   /* what nbdcopy says; owned */
  int status;                   /* when it has ended */
  int64_t started_ms, ended_ms; /* clock_ms; ended 0: it runs */
};
DEFINE_VECTOR (copies, struct copy)

/* Append a copy from a wire export at one socket to the export 'disk' at
 * another.  -1 with a message.
 */
int copies_add (copies *all, const char *disk, const char *from_socket,
                const char *to_socket);

/* Run them all at once, each with --flush, and wait for the end of the
 * last.  tick is called about twice a second; if it returns -1, with a
 * message, or interrupt_fd becomes readable, or one fails, the others are
 * ended.
 * Returns 0 when all have succeeded; -1 with errno EINTR and no message if
 * interrupted; -1 otherwise with nbdcopy's words in *ret_reason (owned by
 * the caller), the message being the caller's, who may know better, or with
 * NULL there and a message, if tick said so or nbdcopy could not be started.
 */
int copies_run (copies *all, long connections, int interrupt_fd,
                int (*tick) (void *opaque), void *opaque,
                char **ret_reason);

void copies_free (copies *all);

#endif /* NBDSYNC_COPY_H */
