/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Typed reads of JSON from outside, and whole files of it.  No state.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "fault.h"
#include "json.h"
#include "log.h"

int
json_get_u64 (const json_t *object, const char *key, uint64_t *ret)
{
  json_t *v = json_object_get (object, key);

  if (!json_is_integer (v) || json_integer_value (v) < 0)
    return -1;
  *ret = json_integer_value (v);
  return 0;
}

int
json_get_bool (const json_t *object, const char *key, bool *ret)
{
  json_t *v = json_object_get (object, key);

  if (!json_is_boolean (v))
    return -1;
  *ret = json_boolean_value (v);
  return 0;
}

const char *
json_get_string (const json_t *object, const char *key)
{
  json_t *v = json_object_get (object, key);

  if (!json_is_string (v) ||
      strlen (json_string_value (v)) != json_string_length (v))
    return NULL;
  return json_string_value (v);
}

json_t *
json_read_file (int dirfd, const char *path, size_t max)
{
  /* What lies there may be a FIFO that nobody writes. */
  CLEANUP_FD int fd = openat (dirfd, path,
                              O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  CLEANUP_FREE char *text = NULL;
  struct stat st;
  json_error_t error;
  json_t *json;
  size_t n = 0;

  if (fd == -1) {
    if (errno != ENOENT)
      log_error ("%s: %m", path);
    return NULL;
  }
  if (fstat (fd, &st) == -1) {
    log_error ("%s: %m", path);
    return NULL;
  }
  if (!S_ISREG (st.st_mode) || (uint64_t) st.st_size > max) {
    log_error ("%s: not a file of at most %zu bytes", path, max);
    errno = EBADMSG;
    return NULL;
  }
  text = malloc (st.st_size + 1);
  if (!text) {
    log_error ("%s: %m", path);
    return NULL;
  }
  while (n < (size_t) st.st_size) {
    ssize_t r = read (fd, text + n, st.st_size - n);
    if (r == -1 && errno == EINTR)
      continue;
    if (r == -1) {
      log_error ("%s: %m", path);
      return NULL;
    }
    if (r == 0)
      break;
    n += r;
  }
  json = json_loadb (text, n, JSON_REJECT_DUPLICATES, &error);
  if (!json_is_object (json)) {
    json_decref (json);
    log_error ("%s: not a JSON object: line %d: %s", path,
               error.line, error.text);
    errno = EBADMSG;
    return NULL;
  }
  return json;
}

/* Sync the directory that holds 'path', so that a rename in it lasts. */
static int
sync_parent (int dirfd, const char *path)
{
  const char *slash = strrchr (path, '/');
  CLEANUP_FREE char *dir =
    slash ? strndup (path, slash == path ? 1 : slash - path) : strdup (".");
  CLEANUP_FD int fd = -1;

  if (!dir)
    return -1;
  fd = openat (dirfd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return fd == -1 ? -1 : fsync (fd);
}

int
json_write_file (int dirfd, const char *path, const json_t *json)
{
  CLEANUP_FREE char *text = json_dumps (json, JSON_INDENT (2));
  CLEANUP_FREE char *tmp = NULL;
  CLEANUP_FD int fd = -1;
  size_t len, n = 0;

  if (!text || asprintf (&tmp, "%s.tmp", path) == -1) {
    tmp = NULL;
    log_error ("%s: out of memory", path);
    errno = ENOMEM;
    return -1;
  }
  len = strlen (text);
  text[len++] = '\n';           /* in the place of the NUL */
  fd = openat (dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd == -1)
    goto err;
  while (n < len) {
    ssize_t r = write (fd, text + n, len - n);
    if (r == -1 && errno == EINTR)
      continue;
    if (r == -1)
      goto err;
    n += r;
  }
  FAULT_POINT ("json-write");
  if (fsync (fd) == -1)
    goto err;
  FAULT_POINT ("json-rename");
  if (renameat (dirfd, tmp, dirfd, path) == -1)
    goto err;
  FAULT_POINT ("json-sync");
  if (sync_parent (dirfd, path) == -1)
    goto err;
  return 0;

 err:
  log_error ("%s: cannot write: %m", path);
  return -1;
}
