/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A private storage daemon.
 *
 * Its monitor is one end of a socketpair, so there is no path to find it
 * by, and when we die both PR_SET_PDEATHSIG and the lost monitor are
 * noticed.  Images are opened over QMP, where a refusal comes as a text.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "daemon.h"
#include "image.h"
#include "json.h"
#include "log.h"

#define QUIT_TIMEOUT_MS 60000   /* it writes out what it has cached */
#define KILL_TIMEOUT_MS 5000
#define NAME "private qemu-storage-daemon"

static int
open_image (struct qmp *qmp, const struct daemon_image *image)
{
  CLEANUP_JSON json_t *chain = image_chain (image->file, image->format);
  CLEANUP_FREE char *path = NULL;
  const char *format, *file_driver, *refusal = NULL;

  if (!chain)
    return -1;
  format = json_get_string (json_array_get (chain, 0), "format");
  path = realpath (image->file, NULL);
  file_driver = path ? image_file_driver (path) : NULL;
  if (!format || !file_driver) {
    if (!format)
      log_error ("%s: of no format that qemu-img knows", image->file);
    return -1;
  }
  if (qmp_try (qmp, "blockdev-add",
               json_pack ("{ss, ss, ss, s{ss, ss}}", "driver", format,
                          "node-name", image->node, "discard", "unmap",
                          "file", "driver", file_driver, "filename", path),
               QMP_TIMEOUT_MS, NULL, &refusal) == 0)
    return 0;
  if (refusal && strstr (refusal, "Failed to get") &&
      strstr (refusal, "lock")) {
    log_error ("%s: in use by another process (is the machine running? "
               "use qmp:)", image->file);
    errno = EBUSY;
  }
  else if (refusal)
    log_error ("%s: %s", image->file, refusal);
  return -1;
}

int
daemon_start (struct daemon *d, const struct daemon_image *images, size_t n)
{
  CLEANUP_FREE char *chardev = NULL;
  int fds[2], saved;

  *d = (struct daemon) { 0 };
  if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == -1) {
    log_error (NAME ": socketpair: %m");
    return -1;
  }
  CLEANUP_FD int ours = fds[0], theirs = fds[1];
  if (asprintf (&chardev, "socket,id=m,fd=%d", theirs) == -1) {
    chardev = NULL;
    return -1;
  }
  const char *argv[] = { "qemu-storage-daemon", "--chardev", chardev,
                         "--monitor", "chardev=m", NULL };
  const int keep[] = { theirs, 0 };
  if (process_start (&d->process, &(struct process_spec) {
        .argv = argv, .keep = keep }) == -1)
    return -1;
  close (TAKE_FD (theirs));
  d->qmp = qmp_from_fd (TAKE_FD (ours), NAME, QMP_TIMEOUT_MS);
  for (size_t i = 0; d->qmp && i < n; i++)
    if (open_image (d->qmp, &images[i]) == -1) {
      saved = errno;
      daemon_kill (d);
      errno = saved;
    }
  if (!d->qmp) {
    saved = errno;
    daemon_kill (d);
    errno = saved;
    return -1;
  }
  return 0;
}

int
daemon_quit (struct daemon *d)
{
  int status, r;

  if (d->process.pid == 0)
    return 0;
  r = d->qmp ? qmp_execute (d->qmp, "quit", NULL, NULL) : -1;
  qmp_close (d->qmp);
  d->qmp = NULL;
  if (!process_wait (&d->process, r == 0 ? QUIT_TIMEOUT_MS : 0, &status)) {
    log_error (NAME ": does not end");
    process_stop (&d->process, KILL_TIMEOUT_MS);
    errno = ETIMEDOUT;
    return -1;
  }
  if (status != 0) {
    log_error (NAME ": %s", process_status_text (status));
    errno = EIO;
    return -1;
  }
  return r;
}

void
daemon_kill (struct daemon *d)
{
  qmp_close (d->qmp);
  d->qmp = NULL;
  process_stop (&d->process, KILL_TIMEOUT_MS);
}
