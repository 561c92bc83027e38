/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sessions into one image in place.  What the image holds is said by its
 * marker, FILE.nbdsync.json: "incomplete" from before the first byte of a
 * session is written until its flush, then "complete" with the chain and
 * generation that an increment must have.  A session is one disk here,
 * whatever its record lists.  State: the session that is open; disk.c's
 * session lock guards it.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "image.h"
#include "json.h"
#include "log.h"
#include "manifest.h"
#include "session.h"
#include "storage.h"

#define MARKER_MAX_BYTES 65536
#define LOCK_TRIES 100
#define LOCK_POLL_NS 20000000

struct marker {
  bool exists, complete;
  char chain[UUID_CHARS + 1];
  char format[32];
  uint64_t generation, size;
  uint64_t image_bytes, image_mtime_ns;
};

static const char *path;
static char *marker_path;
static int lock_fd = -1;

static bool is_open;
static uint64_t session;
static struct marker marker;    /* what will be written at the end */
static char disk[DISK_NAME_MAX + 1];

static int
take_lock (void)
{
  CLEANUP_FREE char *lock = NULL;
  struct timespec ts = { .tv_nsec = LOCK_POLL_NS };

  if (asprintf (&lock, "%s.nbdsync.lock", path) == -1) {
    lock = NULL;
    log_error ("%s: %m", path);
    return -1;
  }
  lock_fd = open (lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_fd == -1) {
    log_error ("%s: %m", lock);
    return -1;
  }
  for (int i = 0; i < LOCK_TRIES; i++) {
    if (flock (lock_fd, LOCK_EX | LOCK_NB) == 0)
      return 0;
    nanosleep (&ts, NULL);
  }
  log_error ("%s: another nbdkit is at work on it", path);
  return -1;
}

static int
file_prepare (const struct config *c, int *ret_lock)
{
  struct stat st;

  path = c->target;
  if (c->lock_fd != -1) {
    log_error ("lock-fd: only with dir=");
    return -1;
  }
  if (stat (path, &st) == 0 && !S_ISREG (st.st_mode) &&
      !S_ISBLK (st.st_mode)) {
    log_error ("%s: neither a file nor a block device", path);
    return -1;
  }
  if (asprintf (&marker_path, "%s.nbdsync.json", path) == -1) {
    marker_path = NULL;
    log_error ("%s: %m", path);
    return -1;
  }
  if (take_lock () == -1)
    return -1;
  *ret_lock = lock_fd;
  return 0;
}

static int
read_marker (struct marker *ret)
{
  CLEANUP_JSON json_t *json = json_read_file (AT_FDCWD, marker_path,
                                              MARKER_MAX_BYTES);
  struct marker m = { .exists = true };
  const char *state, *chain, *format;

  if (!json) {
    if (errno != ENOENT)
      return -1;
    *ret = (struct marker) { 0 };
    return 0;
  }
  state = json_get_string (json, "state");
  chain = json_get_string (json, "chain");
  format = json_get_string (json, "format");
  if (!state || !chain || !uuid_ok (chain) || !format ||
      (strcmp (format, "raw") != 0 && strcmp (format, "qcow2") != 0) ||
      (strcmp (state, "complete") != 0 && strcmp (state, "incomplete") != 0) ||
      json_get_u64 (json, "generation", &m.generation) == -1 ||
      json_get_u64 (json, "size", &m.size) == -1 ||
      json_get_u64 (json, "image_bytes", &m.image_bytes) == -1 ||
      json_get_u64 (json, "image_mtime_ns", &m.image_mtime_ns) == -1) {
    log_error ("%s: not as it was written; a full sync may start afresh "
               "once it is removed", marker_path);
    return -1;
  }
  strcpy (m.chain, chain);
  strcpy (m.format, format);
  m.complete = strcmp (state, "complete") == 0;
  *ret = m;
  return 0;
}

static int
write_marker (void)
{
  CLEANUP_JSON json_t *json = NULL;
  char id[SESSION_CHARS + 1];

  session_format (session, id);
  json = json_pack ("{s:s, s:s, s:I, s:s, s:s, s:I, s:s, s:I, s:I, s:I}",
                    "state", marker.complete ? "complete" : "incomplete",
                    "chain", marker.chain,
                    "generation", (json_int_t) marker.generation,
                    "session", id,
                    "disk", disk,
                    "size", (json_int_t) marker.size,
                    "format", marker.format,
                    "time", (json_int_t) time (NULL),
                    "image_bytes", (json_int_t) marker.image_bytes,
                    "image_mtime_ns", (json_int_t) marker.image_mtime_ns);
  if (!json) {
    log_error ("%s: out of memory", marker_path);
    return -1;
  }
  return json_write_file (AT_FDCWD, marker_path, json);
}

/* The size and time of a regular file; zeroes for a block device. */
static int
fingerprint (int fd, struct marker *m)
{
  struct stat st;

  if (fstat (fd, &st) == -1)
    return -1;
  m->image_bytes = m->image_mtime_ns = 0;
  if (S_ISREG (st.st_mode)) {
    m->image_bytes = st.st_size;
    m->image_mtime_ns = st.st_mtim.tv_sec * UINT64_C (1000000000) +
      st.st_mtim.tv_nsec;
  }
  return 0;
}

/* Does an increment fit the image that is there? */
static int
check_increment (const struct session_record *r, const struct marker *old)
{
  CLEANUP_FD int fd = -1;
  struct marker now;

  if (!old->complete) {
    log_error ("%s: %s; a full sync must come first", path,
               old->exists ? "only a part of a session was written to it"
                           : "nothing says what it holds (no marker)");
    return -1;
  }
  if (old->generation != r->base) {
    log_error ("%s: the stream builds on generation %" PRIu64
               ", but it holds %" PRIu64, path, r->base, old->generation);
    return -1;
  }
  fd = open (path, O_RDONLY | O_CLOEXEC);
  if (fd == -1 || fingerprint (fd, &now) == -1) {
    log_error ("%s: %m", path);
    return -1;
  }
  if (now.image_bytes != old->image_bytes ||
      now.image_mtime_ns != old->image_mtime_ns) {
    log_error ("%s: changed since its last sync (booted, or copied without "
               "its time?); a full sync is needed", path);
    return -1;
  }
  return 0;
}

static int
file_admit (const char *export, const struct session_record *r, uint64_t id)
{
  struct marker old;
  const char *format;

  if (is_open && session == id) {
    if (strcmp (r->chain, marker.chain) == 0 && r->size == marker.size)
      return 0;
    log_error ("%s: pass %" PRIu64 " has another chain or size than the one "
               "before", r->disk, r->pass);
    return -1;
  }
  if (r->pass != 1) {
    log_error ("%s: pass %" PRIu64 " of a session that is not open", r->disk,
               r->pass);
    return -1;
  }
  if (read_marker (&old) == -1)
    return -1;
  if (old.complete && strcmp (old.chain, r->chain) != 0) {
    log_error ("%s: it follows another source, chain %s, not %s; remove %s "
               "if a full sync may replace it", path, old.chain, r->chain,
               marker_path);
    return -1;
  }
  if (r->base != 0 && check_increment (r, &old) == -1)
    return -1;
  if (old.exists && config.format && strcmp (config.format, old.format)) {
    log_error ("%s: its marker says %s, format=%s was given", path,
               old.format, config.format);
    return -1;
  }
  format = old.exists ? old.format : config.format ? config.format : "";
  marker = (struct marker) { .size = r->size };
  strcpy (marker.chain, r->chain);
  strcpy (marker.format, format);
  marker.generation = r->target != 0 ? r->target : old.generation + 1;
  strcpy (disk, r->disk);
  session = id;
  is_open = true;
  return 0;
}

/* Look at the image, or find that it is to be made: then *ret_layers stays
 * empty.
 */
static int
look (const struct session_record *r, layers *ret_layers)
{
  struct stat st;
  uint64_t size;
  bool device;

  if (stat (path, &st) == -1) {
    if (errno == ENOENT && r->base == 0)
      return 0;
    log_error ("%s: %m", path);
    return -1;
  }
  device = S_ISBLK (st.st_mode);
  if (device && marker.format[0] == '\0')
    strcpy (marker.format, "raw");
  if (image_probe (path, marker.format[0] ? marker.format : NULL,
                   ret_layers, &size) == -1)
    return -1;
  strcpy (marker.format, ret_layers->ptr[0].format);
  if (strcmp (marker.format, "raw") != 0 &&
      strcmp (marker.format, "qcow2") != 0) {
    log_error ("%s: its format is %s; only raw and qcow2 can be a target",
               path, marker.format);
    return -1;
  }
  if (size == r->size || (device && strcmp (marker.format, "raw") == 0 &&
                          size >= r->size))
    return 0;
  log_error ("%s: has %" PRIu64 " bytes, the source %" PRIu64, path, size,
             r->size);
  return -1;
}

static int
open_image (struct image *image, const struct session_record *r, layers *l)
{
  char export[STORAGE_EXPORT_CHARS];
  uint64_t cluster_bytes;
  bool fresh;

  if (look (r, l) == -1)
    return -1;
  fresh = l->len == 0;
  if (fresh && marker.format[0] == '\0')
    strcpy (marker.format, "qcow2");
  if (fresh &&
      (image_create (path, marker.format, r->size, r->cluster_size,
                     NULL) == -1 ||
       layers_push (l, path, marker.format) == -1))
    return -1;
  if (storage_open (image->id, l, &cluster_bytes) == -1)
    return -1;

  /* It is ours alone now, and nothing is written to it yet. */
  storage_export_name (image->id, export);
  if (write_marker () == 0)
    image->writer = writer_start (image->name, export, config.depth,
                                  cluster_bytes, fresh && r->base == 0);
  if (!image->writer) {
    storage_close (image->id);
    return -1;
  }
  return 0;
}

static int
file_open (struct image *image, const struct session_record *r)
{
  layers l = { 0 };
  int rc;

  if (image->writer) {
    writer_write_zeroes (image->writer);
    return 0;
  }
  rc = open_image (image, r, &l);
  layers_clear (&l);
  if (rc == -1)
    is_open = false;
  return rc;
}

static int
file_close_pass (struct image *image, const struct session_record *r)
{
  return r->final;
}

static int
file_commit (void)
{
  CLEANUP_FD int fd = open (path, O_RDONLY | O_CLOEXEC);

  is_open = false;
  if (fd == -1 || fsync (fd) == -1 || fingerprint (fd, &marker) == -1) {
    log_error ("%s: %m", path);
    return -1;
  }
  marker.complete = true;
  return write_marker ();
}

static void
file_cleanup (void)
{
  free (marker_path);
  marker_path = NULL;
  if (lock_fd != -1)
    close (lock_fd);
  lock_fd = -1;
}

const struct session_ops session_file_ops = {
  .prepare = file_prepare,
  .admit = file_admit,
  .open = file_open,
  .close_pass = file_close_pass,
  .commit = file_commit,
  .cleanup = file_cleanup,
};
