/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Child processes that die with us, and the sockets they serve.
 *
 * A server is given its listening socket instead of a path where
 * possible (systemd's protocol: descriptor 3, LISTEN_FDS, LISTEN_PID), so
 * that its clients can connect at once and nobody polls; if the server
 * dies before it accepts, they see the connection closed.
 *
 * A child is ended by the kernel when the *thread* that started it ends
 * (PR_SET_PDEATHSIG), so start children from threads that live as long as
 * the child should: in nbdkit's after_fork, in main.
 */
#ifndef NBDSYNC_PROCESS_H
#define NBDSYNC_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "vector.h"

DEFINE_VECTOR (argv_vector, const char *)

#define PROCESS_NAME_MAX 32

struct process {
  pid_t pid;                    /* 0: not running, or waited for */
  char name[PROCESS_NAME_MAX];  /* argv[0] without its directory, for people */
};

struct process_spec {
  const char *const *argv;      /* NULL at the end; found in PATH */
  int in, out;                  /* 0: /dev/null */
  int err;                      /* 0: ours */
  int listen_fd;                /* becomes fd 3 with LISTEN_FDS=1; 0: none */
  const int *keep;              /* descriptors above 3 to leave open, 0 at
                                   the end */
};

/* Start a child.  -1 with a message (the program is missing, say). */
int process_start (struct process *p, const struct process_spec *spec);

/* Wait for its end, at most timeout_ms (-1: for ever).  Returns 1 and the
 * wait status in *ret_status, 0 if it still runs.
 */
int process_wait (struct process *p, int timeout_ms, int *ret_status);

/* SIGTERM, wait up to timeout_ms, then SIGKILL.  Returns the wait status,
 * 0 if it was not running.
 */
int process_stop (struct process *p, int timeout_ms);

/* "exit status 3", "killed by signal 9", into a static thread-local. */
const char *process_status_text (int status);

/* Run a tool to its end within timeout_ms.  Its standard output (at most
 * 64 MiB, NUL-terminated, owned by the caller) goes to *ret_out unless that
 * is NULL.  -1 with a message that has the last line of its standard error
 * if it fails.
 */
int process_run (const char *const *argv, int timeout_ms, char **ret_out);

/* A listening unix socket, close-on-exec, mode 0600.  -1 with a message,
 * also if the path is too long for a socket address (107 bytes).
 */
int socket_listen (const char *path);

/* Connect to one.  -1 with errno set and no message. */
int socket_connect (const char *path);

#endif /* NBDSYNC_PROCESS_H */
