/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An nbdkit of ours that serves one unix socket.
 */
#ifndef NBDSYNC_SERVER_H
#define NBDSYNC_SERVER_H

#include "process.h"

struct server {
  struct process process;
  char *socket;                 /* owned */
  char *errors;                 /* file with its standard error; owned */
};

/* Start nbdkit (argv NULL-terminated, "nbdkit" first) with socket
 * DIR/NAME.sock and standard error in DIR/NAME.err, and wait until it
 * answers on 'export'.  'keep': descriptors that it inherits, 0 at the end,
 * or NULL.  -1 with the message that nbdkit printed; the struct can then be
 * stopped all the same.
 */
int server_start (struct server *s, const char *dir, const char *name,
                  const char *const *argv, const int *keep,
                  const char *export);

/* Its last message of an error, without nbdkit's prefixes; NULL if none.
 * The caller frees it.
 */
char *server_reason (const struct server *s);

/* End it (it gets timeout_ms to do so by itself) and remove its files. */
void server_stop (struct server *s, int timeout_ms);

#endif /* NBDSYNC_SERVER_H */
