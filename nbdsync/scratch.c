/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Room for spools and map files: PARENT/.nbdsync-<chain8>/, private to the
 * session that holds the chain's lock, so what is found there is a dead
 * run's and may go.
 */
#include <config.h>

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cleanup.h"
#include "fault.h"
#include "log.h"
#include "runtime-dir.h"
#include "peer.h"
#include "source.h"

#define FALLBACK "/var/tmp"     /* for disks that are no files */

char *
scratch_parent (const struct source *s, const struct disk *disk)
{
  char *dir;

  if (s->scratch_dir)
    return strdup (s->scratch_dir);
  if (!disk->file || !disk->file_driver ||
      strcmp (disk->file_driver, "file") != 0)
    return strdup (FALLBACK);
  CLEANUP_FREE char *copy = strdup (disk->file);
  dir = copy ? strdup (dirname (copy)) : NULL;
  return dir;
}

int
scratch_free_bytes (const char *dir, uint64_t *ret)
{
  struct statvfs st;

  if (statvfs (dir, &st) == -1) {
    log_error ("%s: %m", dir);
    return -1;
  }
  *ret = (uint64_t) st.f_bavail * st.f_frsize;
  return 0;
}

/* The directory; NULL with a message. */
static char *
scratch_path (const struct source *s, const struct source_disk *d)
{
  CLEANUP_FREE char *parent = scratch_parent (s, d->disk);
  char *dir;

  if (!parent || asprintf (&dir, "%s/.nbdsync-%s", parent, d->tag) == -1) {
    log_error ("scratch: out of memory");
    return NULL;
  }
  return dir;
}

void
scratch_settle (const struct source *s, const struct source_disk *d)
{
  CLEANUP_FREE char *dir = scratch_path (s, d);

  if (dir)
    runtime_dir_remove (dir);
}

int
scratch_create (struct source *s, struct source_disk *d)
{
  CLEANUP_FREE char *dir = scratch_path (s, d);

  if (!dir)
    return -1;
  runtime_dir_remove (dir);
  if (mkdir (dir, 0700) == -1) {
    log_error ("%s: cannot make a scratch directory: %m "
               "(choose another place by --scratch)", dir);
    return -1;
  }
  /* QEMU itself opens the spool; it may run as a user of its own. */
  if (!s->stopped && peer_own (s->qmp, dir) == -1) {
    rmdir (dir);
    return -1;
  }
  d->scratch = TAKE_PTR (dir);
  return 0;
}

void
scratch_remove (struct source_disk *d)
{
  if (d->scratch)
    runtime_dir_remove (d->scratch);
  free (d->scratch);
  d->scratch = NULL;
  FAULT_POINT ("source-scratch-removed");
}
