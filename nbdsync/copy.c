/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The copies of one pass.  nbdcopy is a child of this process; its exit
 * status 0 with --flush means that the receiver has what was sent, durably.
 */
#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "copy.h"
#include "log.h"

#define TICK_MS 500
#define STOP_MS 2000

/* Append text to a URI, percent-encoded where it must be. */
static void
append_encoded (FILE *fp, const char *text)
{
  for (; *text; text++)
    if (isascii (*text) && (isalnum (*text) || strchr ("-._~/", *text)))
      fputc (*text, fp);
    else
      fprintf (fp, "%%%02X", (unsigned char) *text);
}

static char *
uri (const char *socket, const char *export)
{
  char *text = NULL;
  size_t n;
  FILE *fp = open_memstream (&text, &n);

  if (!fp)
    return NULL;
  fputs ("nbd+unix:///", fp);
  append_encoded (fp, export);
  fputs ("?socket=", fp);
  append_encoded (fp, socket);
  return fclose (fp) == 0 ? text : NULL;
}

int
copies_add (copies *all, const char *disk, const char *from_socket,
            const char *to_socket)
{
  struct copy c = { .disk = disk, .err_fd = -1 };

  c.from = uri (from_socket, "");
  c.to = uri (to_socket, disk);
  if (!c.from || !c.to || copies_append (all, c) == -1) {
    free (c.from);
    free (c.to);
    log_error ("%s: out of memory", disk);
    return -1;
  }
  return 0;
}

static int
start (struct copy *c, long connections)
{
  CLEANUP_FREE char *option = NULL;

  c->err_fd = memfd_create ("nbdcopy", MFD_CLOEXEC);
  if (c->err_fd == -1 ||
      asprintf (&option, "--connections=%ld", connections) == -1) {
    option = NULL;
    log_error ("%s: %m", c->disk);
    return -1;
  }
  const char *argv[] = { "nbdcopy", "--flush", option, "--", c->from, c->to,
                         NULL };
  c->started_ms = clock_ms ();
  return process_start (&c->process, &(struct process_spec) {
      .argv = argv, .err = c->err_fd });
}

/* nbdcopy's first line, without its name and our URIs. */
static char *
reason_of (const struct copy *c)
{
  char text[4096], *line = text, *uri_end;
  ssize_t n = pread (c->err_fd, text, sizeof text - 1, 0);

  if (n <= 0)
    return strdup (process_status_text (c->status));
  text[n] = '\0';
  text[strcspn (text, "\n")] = '\0';
  if (strncmp (line, "nbdcopy: ", 9) == 0)
    line += 9;
  if (strncmp (line, "nbd+unix:", 9) == 0 && (uri_end = strstr (line, ": ")))
    line = uri_end + 2;
  return strdup (line);
}

/* Reap those that have ended.  Returns how many run; *failed is set to the
 * first that failed.
 */
static size_t
reap (copies *all, struct copy **failed)
{
  size_t running = 0;

  for (size_t i = 0; i < all->len; i++) {
    struct copy *c = &all->ptr[i];
    int status;

    if (c->process.pid == 0)
      continue;
    if (!process_wait (&c->process, 0, &status)) {
      running++;
      continue;
    }
    c->status = status;
    c->ended_ms = clock_ms ();
    if (status != 0 && !*failed)
      *failed = c;
  }
  return running;
}

static void
stop_all (copies *all)
{
  for (size_t i = 0; i < all->len; i++)
    process_stop (&all->ptr[i].process, STOP_MS);
}

/* Wait until one of them ends, a tick has passed, or an interrupt. */
static int
wait_for_news (copies *all, int interrupt_fd)
{
  struct pollfd *fds = calloc (all->len + 1, sizeof *fds);
  size_t n = 0;
  int interrupted;

  if (!fds)
    return -1;
  fds[n++] = (struct pollfd) { .fd = interrupt_fd, .events = POLLIN };
  for (size_t i = 0; i < all->len; i++)
    if (all->ptr[i].process.pid)
      fds[n++] = (struct pollfd) {
        .fd = syscall (SYS_pidfd_open, all->ptr[i].process.pid, 0),
        .events = POLLIN };
  poll (fds, n, TICK_MS);
  interrupted = fds[0].revents != 0;
  for (size_t i = 1; i < n; i++)
    if (fds[i].fd >= 0)
      close (fds[i].fd);
  free (fds);
  return interrupted;
}

int
copies_run (copies *all, long connections, int interrupt_fd,
            int (*tick) (void *opaque), void *opaque, char **ret_reason)
{
  struct copy *failed = NULL;

  *ret_reason = NULL;
  for (size_t i = 0; i < all->len; i++)
    if (start (&all->ptr[i], connections) == -1) {
      stop_all (all);
      return -1;
    }
  while (reap (all, &failed) > 0 && !failed) {
    if (wait_for_news (all, interrupt_fd)) {
      stop_all (all);
      errno = EINTR;
      return -1;
    }
    if (tick (opaque) == -1) {
      stop_all (all);
      errno = EIO;
      return -1;
    }
  }
  if (failed) {
    *ret_reason = reason_of (failed);
    stop_all (all);
    errno = EIO;
    return -1;
  }
  return 0;
}

void
copies_free (copies *all)
{
  for (size_t i = 0; i < all->len; i++) {
    free (all->ptr[i].from);
    free (all->ptr[i].to);
    if (all->ptr[i].err_fd >= 0)
      close (all->ptr[i].err_fd);
  }
  copies_reset (all);
}
