/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The images of a replica directory, and the commit that makes those in
 * incoming/ current: see replica.c for the order of things.  No state but
 * that of struct replica.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "fault.h"
#include "json.h"
#include "log.h"
#include "manifest.h"
#include "replica-private.h"

char *
replica_image (const struct replica *r, uint64_t generation, const char *disk)
{
  char path[PATH_BYTES], *ret;

  if (generation == 0)
    snprintf (path, sizeof path, INCOMING "/%s.qcow2", disk);
  else
    generation_path (path, generation, disk, ".qcow2");
  if (asprintf (&ret, "%s/%s", r->path, path) == -1) {
    log_error ("%s: %m", r->path);
    return NULL;
  }
  return ret;
}

static uint64_t
mtime_ns (const struct stat *st)
{
  return st->st_mtim.tv_sec * UINT64_C (1000000000) + st->st_mtim.tv_nsec;
}

/* Is the image as its manifest says? */
static int
check_image (const struct replica *r, const char *path,
             const struct replica_disk *d)
{
  struct stat st;

  if (stat (path, &st) == -1) {
    log_error ("%s: %m", path);
    return -1;
  }
  if ((uint64_t) st.st_size != d->image_bytes ||
      mtime_ns (&st) != d->image_mtime_ns) {
    log_error ("%s: changed since it was committed (booted, or copied "
               "without its time?); only a full sync can build on it", path);
    errno = ESTALE;
    return -1;
  }
  return 0;
}

/* The images of a disk from 'generation' down.  Bases are strictly older,
 * so this ends.
 */
static int
walk_images (const struct replica *r, const char *disk, uint64_t generation,
             strings *ret_images)
{
  while (generation != 0) {
    CLEANUP_FREE char *path = replica_image (r, generation, disk);
    const struct replica_disk *d;
    struct manifest m;
    int rc = -1;

    if (!path)
      return -1;
    if (replica_read_manifest (r, generation, &m) == -1) {
      if (errno == ENOENT)
        log_error ("%s: its generation has no manifest", path);
      return -1;
    }
    d = manifest_disk (&m, disk);
    if (!d)
      log_error ("%s: not in the manifest of its generation", path);
    else if (check_image (r, path, d) == 0) {
      generation = d->base;
      rc = 0;
      if (ret_images && strings_append (ret_images, path) == -1) {
        log_error ("%s: %m", path);
        rc = -1;
      }
      else if (ret_images)
        path = NULL;
    }
    manifest_reset (&m);
    if (rc == -1)
      return -1;
  }
  return 0;
}

int
replica_images (const struct replica *r, const char *disk,
                strings *ret_images)
{
  if (!r->has_current || !manifest_disk (&r->current, disk)) {
    log_error ("%s: %s: not in the current generation", r->path, disk);
    return -1;
  }
  return walk_images (r, disk, r->current.generation, ret_images);
}

/* Make the image of a disk in incoming durable and note what it is. */
static int
sync_image (const struct replica *r, struct replica_disk *d)
{
  CLEANUP_FREE char *path = replica_image (r, 0, d->name);
  CLEANUP_FD int fd = -1;
  struct stat st;

  if (!path)
    return -1;
  fd = open (path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd == -1 || fsync (fd) == -1 || fstat (fd, &st) == -1) {
    log_error ("%s: %m", path);
    return -1;
  }
  d->image_bytes = st.st_size;
  d->image_mtime_ns = mtime_ns (&st);
  return 0;
}

static int
write_journal (const struct replica *r, const struct manifest *m,
               const struct open_session *open)
{
  CLEANUP_JSON json_t *json = NULL;
  CLEANUP_FREE char *line = NULL;
  CLEANUP_FD int fd = -1;
  uint64_t data = 0, wire = 0;
  size_t len;

  for (size_t i = 0; i < m->disks.len; i++) {
    data += m->disks.ptr[i].data_bytes;
    wire += m->disks.ptr[i].wire_bytes;
  }
  json = json_pack ("{s:I, s:I, s:I, s:I, s:I}",
                    "generation", (json_int_t) m->generation,
                    "time", (json_int_t) m->time,
                    "seconds", (json_int_t) (m->time > open->opened ?
                                             m->time - open->opened : 0),
                    "data_bytes", (json_int_t) data,
                    "wire_bytes", (json_int_t) wire);
  line = json ? json_dumps (json, JSON_COMPACT) : NULL;
  if (!line)
    goto err;
  len = strlen (line);
  line[len++] = '\n';           /* in the place of the NUL */
  fd = openat (r->fd, "journal.jsonl",
               O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
               O_NONBLOCK, 0600);
  if (fd == -1 || write (fd, line, len) != (ssize_t) len)
    goto err;
  return 0;

 err:
  log_error ("%s/journal.jsonl: cannot write: %m", r->path);
  return -1;
}

int
replica_commit (struct replica *r, struct manifest *m)
{
  CLEANUP_JSON json_t *json = NULL;
  struct open_session open;
  char path[PATH_BYTES];
  int is_open = replica_read_session (r, &open);

  if (is_open == -1)
    return -1;
  if (!is_open || open.id != m->session || open.target != m->generation) {
    log_error ("%s: a newer session has ended this one", r->path);
    return -1;
  }
  m->base = 0;
  for (size_t i = 0; i < m->disks.len; i++) {
    struct replica_disk *d = &m->disks.ptr[i];

    if (d->base > m->base)
      m->base = d->base;
    if (sync_image (r, d) == -1 ||
        walk_images (r, d->name, d->base, NULL) == -1)
      return -1;
  }
  FAULT_POINT ("commit-images-synced");
  json = manifest_encode (m);
  if (!json ||
      json_write_file (r->fd, INCOMING "/manifest.json", json) == -1)
    return -1;
  FAULT_POINT ("commit-manifest");
  generation_path (path, m->generation, NULL, "");
  if (renameat (r->fd, INCOMING, r->fd, path) == -1) {
    log_error ("%s/%s: %m", r->path, path);
    return -1;
  }
  FAULT_POINT ("commit-renamed");
  if (replica_sync_dir (r, GENERATIONS) == -1)
    return -1;
  FAULT_POINT ("commit-rename-synced");
  if (replica_switch_current (r, m->generation) == -1)
    return -1;

  FAULT_POINT ("commit-switched");
  /* It is committed; what follows is for people, and fails alone. */
  write_journal (r, m, &open);
  FAULT_POINT ("commit-journal");
  generation_path (path, m->generation, "session", ".json");
  unlinkat (r->fd, path, 0);
  return replica_reload (r);
}
