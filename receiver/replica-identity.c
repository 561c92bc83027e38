/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who a replica is: generations/replica.json.
 *
 * Bitmaps at the source are named by chain and generation.  Two copies of a
 * replica have the same chains and would give the same numbers, and then
 * believe each other's bitmaps.  So a replica notes a witness of the very
 * directory that it is; where that does not agree any more, the directory is
 * a copy.  It gets an identity of its own, and what it had until then is
 * not believed: "copied" is the last number that was given before.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "json.h"
#include "log.h"
#include "replica-private.h"

#define IDENTITY GENERATIONS "/replica.json"
#define WITNESS_CHARS 63

/* A text that a copy of the directory does not share: the inode of its lock
 * file, which is never replaced, and when that was born (not every file
 * system knows).  Moving the directory on one file system keeps it.
 */
static int
witness (const struct replica *r, char ret[WITNESS_CHARS + 1])
{
  struct statx st;

  if (statx (r->fd, "lock", AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME,
             &st) == -1) {
    log_error ("%s/lock: %m", r->path);
    return -1;
  }
  if (!(st.stx_mask & STATX_BTIME))
    memset (&st.stx_btime, 0, sizeof st.stx_btime);
  snprintf (ret, WITNESS_CHARS + 1, "%llu-%lld.%09u",
            (unsigned long long) st.stx_ino,
            (long long) st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
  return 0;
}

static int
write_identity (const struct replica *r, const struct replica_identity *id,
                const char *seen)
{
  CLEANUP_JSON json_t *json =
    json_pack ("{s:s, s:s, s:I}", "id", id->id, "witness", seen,
               "copied", (json_int_t) id->copied);

  if (!json) {
    log_error ("%s: out of memory", r->path);
    return -1;
  }
  return json_write_file (r->fd, IDENTITY, json);
}

int
replica_identity (const struct replica *r, struct replica_identity *ret)
{
  CLEANUP_JSON json_t *json = json_read_file (r->fd, IDENTITY,
                                              SMALL_MAX_BYTES);
  struct replica_identity id = { .id = "" };
  const char *text, *seen;
  char now[WITNESS_CHARS + 1];

  if ((!json && errno != ENOENT) || witness (r, now) == -1 ||
      replica_read_last (r, &id.last) == -1)
    return -1;
  if (json) {
    text = json_get_string (json, "id");
    seen = json_get_string (json, "witness");
    if (!text || !uuid_ok (text) || !seen ||
        json_get_u64 (json, "copied", &id.copied) == -1) {
      log_error ("%s/" IDENTITY ": no identity", r->path);
      errno = EBADMSG;
      return -1;
    }
    /* Another id, but the same one whenever this copy is asked. */
    if (strcmp (seen, now) != 0) {
      uuid_derive (text, now, id.id);
      id.copied = id.last;
    }
    else
      strcpy (id.id, text);
  }
  *ret = id;
  return 0;
}

/* Give the replica an identity if it has none, or has that of another. */
int
replica_settle_identity (const struct replica *r)
{
  CLEANUP_JSON json_t *json = NULL;
  struct replica_identity id;
  char now[WITNESS_CHARS + 1];
  const char *seen;

  if (witness (r, now) == -1 || replica_identity (r, &id) == -1)
    return -1;
  json = json_read_file (r->fd, IDENTITY, SMALL_MAX_BYTES);
  seen = json_get_string (json, "witness");
  if (seen && strcmp (seen, now) == 0)
    return 0;
  if (id.id[0] == '\0' && uuid_generate (id.id) == -1)
    return -1;
  return write_identity (r, &id, now);
}
