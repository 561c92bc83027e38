/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Finding a monitor: addresses and connections to them.  No state.
 */
#include <config.h>

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "log.h"
#include "qmp.h"

#define RETRY_MS 50             /* when a monitor's backlog is full */

/* Connect within the deadline; -1 with errno set.  A unix socket whose
 * backlog is full says EAGAIN and has to be asked again.
 */
static int
connect_by (int fd, const struct sockaddr *addr, socklen_t len,
            int64_t deadline)
{
  struct pollfd pfd = { .fd = fd, .events = POLLOUT };
  socklen_t error_len = sizeof (int);
  int error = 0;

  while (connect (fd, addr, len) == -1) {
    if (errno == EINTR)
      continue;
    if (errno == EAGAIN && clock_left_ms (deadline) > 0) {
      poll (NULL, 0, RETRY_MS);
      continue;
    }
    if (errno != EINPROGRESS)
      return -1;
    if (poll (&pfd, 1, clock_left_ms (deadline)) != 1)
      errno = ETIMEDOUT;
    else if (getsockopt (fd, SOL_SOCKET, SO_ERROR, &error, &error_len) == 0)
      errno = error;
    return errno == 0 ? 0 : -1;
  }
  return 0;
}

static int
connect_unix (const char *address, const char *path, int64_t deadline)
{
  struct sockaddr_un addr = { .sun_family = AF_UNIX };
  CLEANUP_FD int fd = -1;

  if (strlen (path) >= sizeof addr.sun_path) {
    log_error ("%s: longer than a socket's path may be", address);
    errno = ENAMETOOLONG;
    return -1;
  }
  strcpy (addr.sun_path, path);
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd == -1 || connect_by (fd, (struct sockaddr *) &addr, sizeof addr,
                              deadline) == -1) {
    if (errno == EAGAIN)
      log_error ("%s: somebody else uses this monitor", address);
    else if (errno == ECONNREFUSED)
      log_error ("%s: nobody listens there (has QEMU ended?)", address);
    else
      log_error ("%s: cannot connect: %m", address);
    return -1;
  }
  return TAKE_FD (fd);
}

static int
connect_tcp (const char *address, const char *host_port, int64_t deadline)
{
  struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list, *ai;
  CLEANUP_FREE char *host = strdup (host_port);
  char *colon = host ? strrchr (host, ':') : NULL;
  char *name = host;
  int fd = -1, r;

  if (!colon || colon == host || colon[1] == '\0') {
    log_error ("%s: not tcp:HOST:PORT", address);
    errno = EINVAL;
    return -1;
  }
  *colon = '\0';
  if (name[0] == '[' && colon[-1] == ']') {
    name++;
    colon[-1] = '\0';
  }
  r = getaddrinfo (name, colon + 1, &hints, &list);
  if (r != 0) {
    log_error ("%s: %s", address, gai_strerror (r));
    errno = EHOSTUNREACH;
    return -1;
  }
  for (ai = list; ai; ai = ai->ai_next) {
    fd = socket (ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd != -1 &&
        connect_by (fd, ai->ai_addr, ai->ai_addrlen, deadline) == 0)
      break;
    cleanup_fd (&fd);
    fd = -1;
  }
  freeaddrinfo (list);
  if (fd == -1)
    log_error ("%s: cannot connect: %m", address);
  return fd;
}

struct qmp *
qmp_connect (const char *address, int timeout_ms)
{
  int64_t deadline = clock_ms () + timeout_ms;
  int fd;

  if (strncmp (address, "tcp:", 4) == 0)
    fd = connect_tcp (address, address + 4, deadline);
  else if (strncmp (address, "unix:", 5) == 0)
    fd = connect_unix (address, address + 5, deadline);
  else
    fd = connect_unix (address, address, deadline);
  if (fd == -1)
    return NULL;
  return qmp_from_fd (fd, address, clock_left_ms (deadline));
}
