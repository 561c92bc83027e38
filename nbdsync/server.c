/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An nbdkit of ours on a socket that we made and passed to it, so clients
 * may connect from the start.  Its standard error goes to a file, because
 * the reason of a failed copy stands there and nowhere else.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <libnbd.h>

#include "cleanup.h"
#include "log.h"
#include "server.h"

/* Its nature is to answer at once, but it may plan a large disk first. */
static int
wait_until_served (const struct server *s, const char *export)
{
  struct nbd_handle *nbd = nbd_create ();
  int r = -1;

  if (nbd && nbd_set_export_name (nbd, export) == 0)
    r = nbd_connect_unix (nbd, s->socket);
  if (r == -1) {
    CLEANUP_FREE char *reason = server_reason (s);
    log_error ("%s", reason ? reason : nbd_get_error ());
  }
  else
    nbd_shutdown (nbd, 0);
  nbd_close (nbd);
  return r;
}

int
server_start (struct server *s, const char *dir, const char *name,
              const char *const *argv, const int *keep, const char *export)
{
  CLEANUP_FD int listener = -1, errors = -1;

  if (asprintf (&s->socket, "%s/%s.sock", dir, name) == -1)
    s->socket = NULL;
  if (asprintf (&s->errors, "%s/%s.err", dir, name) == -1)
    s->errors = NULL;
  if (!s->socket || !s->errors) {
    log_error ("%s: out of memory", name);
    return -1;
  }
  errors = open (s->errors, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND |
                 O_CLOEXEC, 0600);
  if (errors == -1) {
    log_error ("%s: %m", s->errors);
    return -1;
  }
  listener = socket_listen (s->socket);
  if (listener == -1 ||
      process_start (&s->process, &(struct process_spec) {
          .argv = argv, .err = errors, .listen_fd = listener,
          .keep = keep }) == -1)
    return -1;
  /* Only nbdkit holds it now: when nbdkit dies, clients are told. */
  close (TAKE_FD (listener));
  return wait_until_served (s, export);
}

/* "nbdkit: delta-recv.2: error: vda: ..." -> "vda: ..." */
static const char *
message_of (const char *line)
{
  const char *error = strstr (line, "error: ");

  return strncmp (line, "nbdkit:", 7) == 0 && error ? error + 7 : NULL;
}

char *
server_reason (const struct server *s)
{
  CLEANUP_FILE FILE *fp = s->errors ? fopen (s->errors, "re") : NULL;
  CLEANUP_FREE char *line = NULL;
  char *first = NULL;
  size_t cap = 0;
  ssize_t n;

  /* The first error is the cause, what follows are consequences. */
  while (fp && !first && (n = getline (&line, &cap, fp)) != -1) {
    if (n > 0 && line[n - 1] == '\n')
      line[n - 1] = '\0';
    if (message_of (line))
      first = strdup (message_of (line));
  }
  return first;
}

void
server_stop (struct server *s, int timeout_ms)
{
  process_stop (&s->process, timeout_ms);
  if (s->socket)
    unlink (s->socket);
  if (s->errors)
    unlink (s->errors);
  free (s->socket);
  free (s->errors);
  memset (s, 0, sizeof *s);
}
