/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sessions of a replica directory: generations/incoming, and whose it is.
 * session.json goes first when a session is discarded and last when it is
 * committed: whoever finds none knows that incoming/ belongs to nobody.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"
#include "json.h"
#include "log.h"
#include "manifest.h"
#include "replica-private.h"

#define SESSION INCOMING "/session.json"

int
replica_read_session (const struct replica *r, struct open_session *ret)
{
  CLEANUP_JSON json_t *json = json_read_file (r->fd, SESSION,
                                              SMALL_MAX_BYTES);

  if (!json)
    return errno == ENOENT ? 0 : -1;
  if (!session_parse (json_get_string (json, "session"), &ret->id) ||
      json_get_u64 (json, "target", &ret->target) == -1 ||
      ret->target == 0 || ret->target > GENERATION_MAX ||
      json_get_u64 (json, "opened", &ret->opened) == -1) {
    log_error ("%s/" SESSION ": not as it was written", r->path);
    errno = EBADMSG;
    return -1;
  }
  return 1;
}

int
replica_discard_incoming (struct replica *r)
{
  int fd;
  DIR *dir;
  struct dirent *entry;
  int rc = 0;

  fd = openat (r->fd, INCOMING,
               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd == -1 && errno == ENOENT)
    return 0;
  FAULT_POINT ("replica-discard");
  if (fd == -1 || (unlinkat (fd, "session.json", 0) == -1 &&
                   errno != ENOENT) || fsync (fd) == -1) {
    log_error ("%s/" INCOMING ": cannot discard: %m", r->path);
    if (fd != -1)
      close (fd);
    return -1;
  }
  FAULT_POINT ("replica-session-gone");
  dir = fdopendir (fd);
  if (!dir) {
    log_error ("%s/" INCOMING ": %m", r->path);
    close (fd);
    return -1;
  }
  while ((entry = readdir (dir)))
    if (strcmp (entry->d_name, ".") != 0 &&
        strcmp (entry->d_name, "..") != 0 &&
        unlinkat (fd, entry->d_name, 0) == -1) {
      log_error ("%s/" INCOMING "/%s: %m", r->path, entry->d_name);
      rc = -1;
    }
  closedir (dir);
  FAULT_POINT ("replica-images-gone");
  if (rc == 0 && unlinkat (r->fd, INCOMING, AT_REMOVEDIR) == -1) {
    log_error ("%s/" INCOMING ": %m", r->path);
    rc = -1;
  }
  return rc;
}

int
replica_open_session (struct replica *r, uint64_t session,
                      uint64_t *ret_target)
{
  CLEANUP_JSON json_t *last = NULL, *json = NULL;
  char id[SESSION_CHARS + 1];
  uint64_t target;

  if (replica_read_last (r, &target) == -1)
    return -1;
  if (target >= GENERATION_MAX) {
    log_error ("%s: no number is left for a generation", r->path);
    return -1;
  }
  target++;
  session_format (session, id);
  last = json_pack ("{s:I}", "last", (json_int_t) target);
  json = json_pack ("{s:s, s:I, s:I, s:I}",
                    "session", id,
                    "target", (json_int_t) target,
                    "base", (json_int_t) r->current.generation,
                    "opened", (json_int_t) time (NULL));
  if (!last || !json) {
    log_error ("%s: out of memory", r->path);
    return -1;
  }
  if (replica_discard_incoming (r) == -1)
    return -1;
  FAULT_POINT ("session-number");
  if (json_write_file (r->fd, LAST, last) == -1)
    return -1;
  FAULT_POINT ("session-number-given");
  if (replica_make_dir (r, INCOMING) == -1)
    return -1;
  FAULT_POINT ("session-dir-made");
  if (json_write_file (r->fd, SESSION, json) == -1)
    return -1;
  FAULT_POINT ("session-written");
  if (replica_sync_dir (r, GENERATIONS) == -1)
    return -1;
  FAULT_POINT ("session-open");
  *ret_target = target;
  return 0;
}

int
replica_join_session (struct replica *r, uint64_t session, uint64_t target,
                      uint64_t *ret_target)
{
  struct open_session open = { 0 };
  int is_open = replica_read_session (r, &open);

  if (is_open == -1)
    return -1;
  if (is_open && open.id == session &&
      (target == 0 || target == open.target)) {
    *ret_target = open.target;
    return 0;
  }
  if (target == 0)
    return replica_open_session (r, session, ret_target);
  log_error ("%s: generation %" PRIu64 " was not promised to this session, "
             "or a newer session has ended it", r->path, target);
  return -1;
}
