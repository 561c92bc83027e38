/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A replica directory.  All paths are relative to one descriptor of DIR:
 *
 *   lock                        flock; never removed
 *   current                     symbolic link to generations/NNNNNN
 *   checked.json                generation and time of "nothing had changed"
 *   journal.jsonl               one line for each commit
 *   generations/last.json       the last number given out
 *   generations/replica.json    who this replica is
 *   generations/NNNNNN/         manifest.json and NAME.qcow2 of each disk
 *   generations/incoming/       session.json and NAME.qcow2: not committed
 *
 * The commit point is the rename of the symbolic link.  Before it, in this
 * order and each durable before the next: the images, the manifest, the
 * rename of incoming to its number.  So a directory with the last number
 * given out, and a manifest, is whole: if a crash came between the two
 * renames, replica_open makes it current.  Older numbers are never made
 * current by themselves.
 */
#include <config.h>

#include <dirent.h>
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

void
generation_path (char ret[PATH_BYTES], uint64_t generation,
                 const char *name, const char *suffix)
{
  snprintf (ret, PATH_BYTES, GENERATIONS "/%06" PRIu64 "%s%s%s",
            generation, name ? "/" : "", name ? name : "", suffix);
}

int
replica_sync_dir (const struct replica *r, const char *path)
{
  CLEANUP_FD int fd = openat (r->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

  if (fd == -1 || fsync (fd) == -1) {
    log_error ("%s/%s: cannot sync: %m", r->path, path);
    return -1;
  }
  return 0;
}

int
replica_make_dir (const struct replica *r, const char *path)
{
  if (mkdirat (r->fd, path, 0700) == -1 && errno != EEXIST) {
    log_error ("%s/%s: %m", r->path, path);
    return -1;
  }
  return 0;
}

/* Reading. */

int
replica_read_manifest (const struct replica *r, uint64_t generation,
               struct manifest *ret)
{
  CLEANUP_JSON json_t *json = NULL;
  struct manifest m;
  char path[PATH_BYTES];
  const char *wrong;

  generation_path (path, generation, "manifest", ".json");
  json = json_read_file (r->fd, path, MANIFEST_MAX_BYTES);
  if (!json)
    return -1;
  wrong = manifest_decode (json, &m);
  if (!wrong && m.generation != generation) {
    manifest_reset (&m);
    wrong = "it is of another generation than its directory";
  }
  if (wrong) {
    log_error ("%s/%s: %s", r->path, path, wrong);
    errno = EBADMSG;
    return -1;
  }
  *ret = m;
  return 0;
}

/* A name of digits only, as generation_path makes it. */
static bool
parse_generation (const char *name, uint64_t *ret)
{
  char path[PATH_BYTES];
  uint64_t n;

  if (strlen (name) > 16 || strspn (name, "0123456789") != strlen (name))
    return false;
  n = strtoull (name, NULL, 10);
  generation_path (path, n, NULL, "");
  if (n == 0 || n > GENERATION_MAX ||
      strcmp (path + strlen (GENERATIONS "/"), name) != 0)
    return false;
  *ret = n;
  return true;
}

/* Where 'current' points: 0 if there is none. */
static int
read_current (const struct replica *r, uint64_t *ret)
{
  char link[PATH_BYTES];
  ssize_t n = readlinkat (r->fd, "current", link, sizeof link - 1);

  if (n == -1) {
    if (errno == ENOENT) {
      *ret = 0;
      return 0;
    }
    log_error ("%s/current: %m", r->path);
    return -1;
  }
  link[n] = '\0';
  if (strncmp (link, GENERATIONS "/", strlen (GENERATIONS "/")) != 0 ||
      !parse_generation (link + strlen (GENERATIONS "/"), ret)) {
    log_error ("%s/current: points to no generation: %s", r->path, link);
    errno = EBADMSG;
    return -1;
  }
  return 0;
}

/* The highest number that was ever given out. */
int
replica_read_last (const struct replica *r, uint64_t *ret)
{
  CLEANUP_JSON json_t *json = json_read_file (r->fd, LAST, SMALL_MAX_BYTES);
  uint64_t last = 0, n;
  int fd;
  DIR *dir;
  struct dirent *entry;

  if (!json && errno != ENOENT)
    return -1;
  if (json && (json_get_u64 (json, "last", &last) == -1 ||
               last > GENERATION_MAX)) {
    log_error ("%s/" LAST ": no number", r->path);
    errno = EBADMSG;
    return -1;
  }
  fd = openat (r->fd, GENERATIONS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  dir = fd == -1 ? NULL : fdopendir (fd);
  if (!dir) {
    log_error ("%s/" GENERATIONS ": %m", r->path);
    if (fd != -1)
      close (fd);
    return -1;
  }
  while ((entry = readdir (dir)))
    if (parse_generation (entry->d_name, &n) && n > last)
      last = n;
  closedir (dir);
  *ret = last;
  return 0;
}

/* Commit, and what is left of one. */

int
replica_switch_current (const struct replica *r, uint64_t generation)
{
  char path[PATH_BYTES];

  generation_path (path, generation, NULL, "");
  if ((unlinkat (r->fd, "current.tmp", 0) == -1 && errno != ENOENT) ||
      symlinkat (path, r->fd, "current.tmp") == -1) {
    log_error ("%s/current: cannot switch: %m", r->path);
    return -1;
  }
  FAULT_POINT ("replica-link-made");
  if (renameat (r->fd, "current.tmp", r->fd, "current") == -1) {
    log_error ("%s/current: cannot switch: %m", r->path);
    return -1;
  }
  FAULT_POINT ("replica-switched");
  return replica_sync_dir (r, ".");
}

/* The last number given out may be of a commit that a crash cut short. */
static int
settle (struct replica *r, uint64_t *current)
{
  struct manifest m;
  struct stat st;
  char path[PATH_BYTES];
  uint64_t last;

  if (replica_read_last (r, &last) == -1)
    return -1;
  if (last <= *current)
    return 0;
  generation_path (path, last, NULL, "");
  if (fstatat (r->fd, path, &st, AT_SYMLINK_NOFOLLOW) == -1)
    return 0;                   /* a number that no commit has used */
  FAULT_POINT ("replica-settle");
  if (replica_read_manifest (r, last, &m) == -1) {
    if (errno != ENOENT)
      return -1;
    /* Not whole after all: it is what was being received. */
    if (renameat2 (r->fd, path, r->fd, INCOMING, RENAME_NOREPLACE) == -1 &&
        errno != EEXIST) {
      log_error ("%s/%s: %m", r->path, path);
      return -1;
    }
    return 0;
  }
  manifest_reset (&m);
  log_debug ("%s: rolling generation %" PRIu64 " forward", r->path, last);
  if (replica_sync_dir (r, GENERATIONS) == -1 ||
      replica_switch_current (r, last) == -1)
    return -1;
  *current = last;
  return 0;
}

int
replica_reload (struct replica *r)
{
  struct manifest m;
  uint64_t generation;

  if (read_current (r, &generation) == -1)
    return -1;
  if (generation == 0)
    return 0;
  if (replica_read_manifest (r, generation, &m) == -1) {
    if (errno == ENOENT)
      log_error ("%s/current: it has no manifest", r->path);
    return -1;
  }
  manifest_reset (&r->current);
  r->current = m;
  r->has_current = true;
  return 0;
}

int
replica_settle (struct replica *r)
{
  char path[PATH_BYTES];
  uint64_t generation;

  if (read_current (r, &generation) == -1 || settle (r, &generation) == -1)
    return -1;
  unlinkat (r->fd, "checked.json.tmp", 0);
  /* What a commit leaves behind when it is cut after the switch. */
  if (generation != 0) {
    generation_path (path, generation, "session", ".json");
    unlinkat (r->fd, path, 0);
  }
  return replica_reload (r);
}

struct replica *
replica_open (const char *dir, enum replica_access access)
{
  struct replica *r = calloc (1, sizeof *r);
  struct stat st;

  if (!r) {
    log_error ("%s: %m", dir);
    return NULL;
  }
  r->fd = open (dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (r->fd == -1) {
    if (access == REPLICA_CREATE || errno != ENOENT)
      log_error ("%s: %m", dir);
    goto err;
  }
  r->path = realpath (dir, NULL);
  if (!r->path) {
    log_error ("%s: %m", dir);
    goto err;
  }
  if (access == REPLICA_CREATE) {
    if (replica_make_dir (r, GENERATIONS) == -1)
      goto err;
  }
  else if (fstatat (r->fd, GENERATIONS, &st, 0) == -1) {
    if (errno != ENOENT)
      log_error ("%s/" GENERATIONS ": %m", r->path);
    goto err;
  }
  if (access != REPLICA_READ) {
    if (replica_settle_identity (r) == -1 || replica_settle (r) == -1)
      goto err;
  }
  else if (replica_reload (r) == -1)
    goto err;
  return r;

 err:
  replica_close (r);
  return NULL;
}

void
replica_close (struct replica *r)
{
  int saved = errno;

  if (!r)
    return;
  if (r->fd != -1)
    close (r->fd);
  manifest_reset (&r->current);
  free (r->path);
  free (r);
  errno = saved;
}

const struct manifest *
replica_current (const struct replica *r)
{
  return r->has_current ? &r->current : NULL;
}

uint64_t
replica_checked_time (const struct replica *r)
{
  CLEANUP_JSON json_t *json = NULL;
  uint64_t generation, checked;

  if (!r->has_current)
    return 0;
  json = json_read_file (r->fd, "checked.json", SMALL_MAX_BYTES);
  if (json && json_get_u64 (json, "generation", &generation) == 0 &&
      json_get_u64 (json, "time", &checked) == 0 &&
      generation == r->current.generation && checked > r->current.time)
    return checked;
  return r->current.time;
}

int
replica_checked (struct replica *r, uint64_t checked)
{
  CLEANUP_JSON json_t *json =
    json_pack ("{s:I, s:I}",
               "generation", (json_int_t) r->current.generation,
               "time", (json_int_t) checked);

  if (!json) {
    log_error ("%s/checked.json: out of memory", r->path);
    return -1;
  }
  return json_write_file (r->fd, "checked.json", json);
}
