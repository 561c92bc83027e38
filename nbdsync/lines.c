/* SPDX-License-Identifier: BSD-3-Clause
 *
 * JSON objects over pipes, one a line.  State: what was read beyond the
 * last line.
 */
#include <config.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "lines.h"
#include "vector.h"

void
lines_reset (struct lines *lines)
{
  free (lines->buf);
  lines->buf = NULL;
  lines->len = lines->cap = 0;
}

/* Take a line out of the buffer, if a whole one is there. */
static json_t *
take_line (struct lines *lines, size_t searched)
{
  char *nl = memchr (lines->buf + searched, '\n', lines->len - searched);
  json_t *object;
  size_t n;

  if (!nl) {
    errno = lines->len >= LINES_MAX_BYTES ? EBADMSG : EAGAIN;
    return NULL;
  }
  n = nl - lines->buf;
  object = json_loadb (lines->buf, n, JSON_REJECT_DUPLICATES, NULL);
  lines->len -= n + 1;
  memmove (lines->buf, nl + 1, lines->len);
  if (!json_is_object (object)) {
    json_decref (object);
    errno = EBADMSG;
    return NULL;
  }
  return object;
}

json_t *
lines_read (struct lines *lines, int timeout_ms)
{
  int64_t deadline = clock_ms () + timeout_ms;
  size_t searched = 0;

  for (;;) {
    if (lines->len > searched) {
      json_t *object = take_line (lines, searched);
      if (object || errno != EAGAIN)
        return object;
    }
    searched = lines->len;

    struct pollfd fds[2] = { { .fd = lines->fd, .events = POLLIN },
                             { .fd = lines->wake_fd, .events = POLLIN } };
    int64_t left = timeout_ms < 0 ? -1 : deadline - clock_ms ();
    int r = poll (fds, lines->wake_fd >= 0 ? 2 : 1,
                  left < 0 && timeout_ms >= 0 ? 0 : (int) left);
    if (r == -1)
      return NULL;
    if (r == 0) {
      errno = ETIMEDOUT;
      return NULL;
    }
    if (fds[0].revents == 0) {
      errno = EAGAIN;
      return NULL;
    }
    void *p = lines->buf;
    if (vector_reserve (&p, &lines->cap, lines->len + 65536, 1) == -1)
      return NULL;
    lines->buf = p;
    ssize_t n = read (lines->fd, lines->buf + lines->len, 65536);
    if (n == -1)
      return NULL;
    if (n == 0) {
      errno = 0;
      return NULL;
    }
    lines->len += n;
  }
}

int
lines_write (int fd, const json_t *object)
{
  CLEANUP_FREE char *text = json_dumps (object, JSON_COMPACT);
  size_t len, n = 0;

  if (!text) {
    errno = ENOMEM;
    return -1;
  }
  len = strlen (text);
  text[len++] = '\n';           /* in the place of the NUL */
  while (n < len) {
    ssize_t r = write (fd, text + n, len - n);
    if (r == -1 && errno != EINTR)
      return -1;
    if (r > 0)
      n += r;
  }
  return 0;
}
