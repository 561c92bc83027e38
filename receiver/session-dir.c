/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sessions into a replica directory.  A session has a number of disks, which
 * its first record lists; the generation is committed when the last of them
 * has closed its final pass.  Until then everything is in
 * generations/incoming.  State: the session that is open, and the manifest
 * that it has so far; disk.c's session lock guards it.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "fault.h"
#include "image.h"
#include "log.h"
#include "session.h"
#include "storage.h"

#define LOCK_TIMEOUT_MS 2000    /* a storage daemon may still be ending */

static struct replica *replica;
static int lock_fd = -1;

static bool is_open;
static strings disks;           /* of the session */
static struct manifest staged;  /* its disks that are done; its number, id */

static int
dir_prepare (const struct config *c, int *ret_lock)
{
  if (c->lock_fd != -1) {
    if (replica_lock_check (c->dir, c->lock_fd) == -1)
      return -1;
    lock_fd = c->lock_fd;
  }
  else if (replica_lock (c->dir, true, LOCK_TIMEOUT_MS, &lock_fd) == -1) {
    if (errno == EBUSY)
      log_error ("%s: another nbdsync or nbdkit is at work on it", c->dir);
    return -1;
  }
  replica = replica_open (c->dir, REPLICA_CREATE);
  if (!replica)
    return -1;
  *ret_lock = lock_fd;
  return 0;
}

static void
forget_session (void)
{
  for (size_t i = 0; i < disks.len; i++)
    free (disks.ptr[i]);
  strings_reset (&disks);
  manifest_reset (&staged);
  is_open = false;
}

static int
remember_session (const struct session_record *r, uint64_t session,
                  uint64_t target)
{
  forget_session ();
  staged.session = session;
  staged.generation = target;
  for (size_t i = 0; i < r->disks.len; i++) {
    char *copy = strdup (r->disks.ptr[i]);

    if (!copy || strings_append (&disks, copy) == -1) {
      free (copy);
      log_error ("%s: %m", r->disk);
      return -1;
    }
  }
  is_open = true;
  return 0;
}

static bool
same_disks (const strings *a, const strings *b)
{
  if (a->len != b->len)
    return false;
  for (size_t i = 0; i < a->len; i++) {
    bool found = false;

    for (size_t j = 0; j < b->len; j++)
      found |= strcmp (a->ptr[i], b->ptr[j]) == 0;
    if (!found)
      return false;
  }
  return true;
}

/* Does the stream fit what is there? */
static int
check_base (const struct session_record *r)
{
  const struct manifest *m = replica_current (replica);
  const struct replica_disk *d = m ? manifest_disk (m, r->disk) : NULL;

  if (d && strcmp (d->chain, r->chain) != 0 &&
      (r->base != 0 || strcmp (d->chain, r->former) != 0)) {
    log_error ("%s: the replica follows another source, chain %s, not %s; "
               "use a directory of its own, or a session record with the "
               "replica's chain", r->disk, d->chain, r->chain);
    return -1;
  }
  if (r->base == 0)
    return 0;
  if (!d) {
    log_error ("%s: the stream builds on generation %" PRIu64 ", but the "
               "replica has no such disk; a full sync must come first",
               r->disk, r->base);
    return -1;
  }
  if (r->base != m->generation) {
    log_error ("%s: the stream builds on generation %" PRIu64 ", but the "
               "replica is at %" PRIu64, r->disk, r->base, m->generation);
    return -1;
  }
  if (r->size != d->size) {
    log_error ("%s: the source has %" PRIu64 " bytes, the replica %" PRIu64
               "; a full sync is needed", r->disk, r->size, d->size);
    return -1;
  }
  return 0;
}

static int
dir_admit (const char *export, const struct session_record *r,
           uint64_t session)
{
  uint64_t target;

  if (strcmp (export, r->disk) != 0) {
    log_error ("%s: this export was sent the stream of disk %s", export,
               r->disk);
    return -1;
  }
  if (check_base (r) == -1)
    return -1;
  if (is_open && staged.session == session) {
    if (!same_disks (&disks, &r->disks)) {
      log_error ("%s: the records of its session name different disks",
                 r->disk);
      return -1;
    }
    if (r->target != 0 && r->target != staged.generation) {
      log_error ("%s: its session makes generation %" PRIu64
                 ", not %" PRIu64, r->disk, staged.generation, r->target);
      return -1;
    }
    return 0;
  }
  if (r->pass != 1) {
    log_error ("%s: pass %" PRIu64 " of a session that is not open", r->disk,
               r->pass);
    return -1;
  }
  if (replica_join_session (replica, session, r->target, &target) == -1)
    return -1;
  return remember_session (r, session, target);
}

static int
make_image (struct image *image, const struct session_record *r,
            layers *ret_layers)
{
  CLEANUP_FREE char *path = replica_image (replica, 0, r->disk);
  char backing[DISK_NAME_MAX + 40];
  strings below = { 0 };
  int rc;

  if (!path)
    return -1;
  if (unlink (path) == -1 && errno != ENOENT) {
    log_error ("%s: %m", path);
    return -1;
  }
  snprintf (backing, sizeof backing, "../%06" PRIu64 "/%s.qcow2", r->base,
            r->disk);
  rc = layers_push (ret_layers, path, "qcow2");
  if (rc == 0 && r->base != 0)
    rc = replica_images (replica, r->disk, &below);
  for (size_t i = 0; i < below.len; i++) {
    if (rc == 0)
      rc = layers_push (ret_layers, below.ptr[i], "qcow2");
    free (below.ptr[i]);
  }
  strings_reset (&below);
  if (rc == 0)
    rc = image_create (path, "qcow2", r->size, r->cluster_size,
                       r->base != 0 ? backing : NULL);
  return rc;
}

static int
dir_open (struct image *image, const struct session_record *r)
{
  char export[STORAGE_EXPORT_CHARS];
  layers l = { 0 };
  uint64_t cluster_bytes;
  int rc;

  if (image->writer) {
    if (strcmp (r->chain, image->entry.chain) != 0 ||
        r->base != image->entry.base || r->size != image->entry.size) {
      log_error ("%s: pass %" PRIu64 " has another chain, base or size than "
                 "the one before", r->disk, r->pass);
      return -1;
    }
    writer_write_zeroes (image->writer);
    return 0;
  }
  rc = make_image (image, r, &l);
  if (rc == 0)
    rc = storage_open (image->id, &l, &cluster_bytes);
  layers_clear (&l);
  if (rc == -1)
    return -1;
  FAULT_POINT ("receive-image-open");
  storage_export_name (image->id, export);
  image->writer = writer_start (image->name, export, config.depth,
                                cluster_bytes, r->base == 0);
  if (!image->writer) {
    storage_close (image->id);
    return -1;
  }
  strcpy (image->entry.name, r->disk);
  strcpy (image->entry.chain, r->chain);
  image->entry.size = r->size;
  image->entry.base = r->base;
  return 0;
}

static int
dir_close_pass (struct image *image, const struct session_record *r)
{
  struct replica_disk entry = image->entry;

  if (!r->final)
    return 0;
  entry.source = r->source ? strdup (r->source) : NULL;
  if ((r->source && !entry.source) ||
      replica_disks_append (&staged.disks, entry) == -1) {
    free (entry.source);
    log_error ("%s: %m", r->disk);
    return -1;
  }
  return staged.disks.len == disks.len;
}

static int
dir_commit (void)
{
  int rc;

  staged.time = time (NULL);
  rc = replica_commit (replica, &staged);
  FAULT_POINT ("receive-committed");
  forget_session ();
  return rc;
}

static void
dir_cleanup (void)
{
  forget_session ();
  replica_close (replica);
  replica = NULL;
  if (lock_fd != -1)
    close (lock_fd);
  lock_fd = -1;
}

const struct session_ops session_dir_ops = {
  .prepare = dir_prepare,
  .admit = dir_admit,
  .open = dir_open,
  .close_pass = dir_close_pass,
  .commit = dir_commit,
  .cleanup = dir_cleanup,
};
