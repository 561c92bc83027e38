/* SPDX-License-Identifier: BSD-3-Clause
 *
 * JSON objects over pipes, one a line: what the coordinator and its agents
 * speak.
 */
#ifndef NBDSYNC_LINES_H
#define NBDSYNC_LINES_H

#include <jansson.h>

#define LINES_MAX_BYTES (16 << 20)

struct lines {
  int fd;                       /* not owned */
  char *buf;                    /* owned; free with lines_reset */
  size_t len, cap;
  int wake_fd;                  /* also ends a wait when readable; -1: none */
};

void lines_reset (struct lines *lines);

/* The next object, a new reference.  NULL with errno: 0 at the end of the
 * stream, ETIMEDOUT (timeout_ms, -1 for ever, has passed), EINTR (a signal
 * came), EAGAIN (wake_fd is readable), EBADMSG (not a JSON object, or too
 * long a line), or what read(2) says.  No messages.
 */
json_t *lines_read (struct lines *lines, int timeout_ms);

/* Write an object as a line.  -1 with errno set. */
int lines_write (int fd, const json_t *object);

#endif /* NBDSYNC_LINES_H */
