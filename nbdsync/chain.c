/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Chains at the source: their locks and their bitmaps.
 *
 * A chain's lock is a file that is never removed, held by flock, so that it
 * is free when its owner is gone.  Recovery and sessions touch a chain only
 * under its lock.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bitmaps.h"
#include "chain.h"
#include "cleanup.h"
#include "clock.h"
#include "disks.h"
#include "fault.h"
#include "log.h"

/* Where the locks of chains are: the same place for every run of a user. */
static char *
lock_dir (void)
{
  const char *xdg = getenv ("XDG_RUNTIME_DIR");
  char *dir;
  int r;

  if (geteuid () == 0)
    r = asprintf (&dir, "/run/nbdsync");
  else if (xdg && xdg[0] == '/')
    r = asprintf (&dir, "%s/nbdsync", xdg);
  else
    r = asprintf (&dir, "/tmp/nbdsync-%u", (unsigned) geteuid ());
  return r == -1 ? NULL : dir;
}

/* One session per chain at a time, whoever runs it. */
int
chain_lock (const char *tag, const char *disk, int timeout_ms)
{
  int64_t deadline = clock_ms () + timeout_ms;
  CLEANUP_FREE char *dir = lock_dir ();
  CLEANUP_FREE char *path = NULL;
  CLEANUP_FD int fd = -1;

  if (!dir || asprintf (&path, "%s/chain-%s.lock", dir, tag) == -1) {
    path = NULL;
    log_error ("out of memory");
    return -1;
  }
  if (mkdir (dir, 0700) == -1 && errno != EEXIST) {
    log_error ("%s: %m", dir);
    return -1;
  }
  fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd == -1) {
    log_error ("%s: %m", path);
    return -1;
  }
  while (flock (fd, LOCK_EX | LOCK_NB) == -1) {
    if (errno != EWOULDBLOCK) {
      log_error ("%s: %m", path);
      return -1;
    }
    if (clock_ms () > deadline) {
      log_error ("%s: another sync of this disk to this replica is running",
                 disk);
      errno = EBUSY;
      return -1;
    }
    nanosleep (&(struct timespec) { .tv_nsec = 50000000 }, NULL);
  }
  return TAKE_FD (fd);
}

int
chain_remove_bitmaps (struct qmp *qmp, const char *node, const char *tag,
                      const char *keep, bool passes_only)
{
  disks now = { 0 };
  struct disk *disk;
  int r = -1;

  if (disks_list (qmp, &now) == -1)
    goto out;
  disk = disks_find (&now, node);
  r = 0;
  for (size_t i = 0; disk && i < disk->bitmaps.len; i++) {
    const char *name = disk->bitmaps.ptr[i].name;
    char chain8[CHAIN8_CHARS + 1];
    uint64_t generation, pass;

    if (bitmap_parse_name (name, chain8, &generation, &pass) &&
        strcmp (chain8, tag) == 0 && strcmp (name, keep) != 0 &&
        (pass > 0 || !passes_only) &&
        bitmap_remove (qmp, disk->node, name) == -1)
      r = -1;
  }
 out:
  disks_free (&now);
  return r;
}

