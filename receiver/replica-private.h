/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the parts of the replica library share: see replica.c.
 */
#ifndef NBDSYNC_REPLICA_PRIVATE_H
#define NBDSYNC_REPLICA_PRIVATE_H

#include "replica.h"

#define GENERATIONS "generations"
#define INCOMING GENERATIONS "/incoming"
#define LAST GENERATIONS "/last.json"
#define PATH_BYTES 160          /* of a path inside DIR */
#define SMALL_MAX_BYTES 4096    /* of our small JSON files */

struct replica {
  char *path;                   /* absolute */
  int fd;                       /* of DIR */
  bool has_current;
  struct manifest current;
};

struct open_session {
  uint64_t id, target, opened;
};

/* generations/NNNNNN, and "/NAMESUFFIX" unless name is NULL. */
void generation_path (char ret[PATH_BYTES], uint64_t generation,
                      const char *name, const char *suffix);

/* Make a directory of ours unless it is there. */
int replica_make_dir (const struct replica *r, const char *path);

/* Make renames in a directory last. */
int replica_sync_dir (const struct replica *r, const char *path);

/* The manifest of a generation.  -1 with errno ENOENT and no message if
 * there is none.
 */
int replica_read_manifest (const struct replica *r, uint64_t generation,
                           struct manifest *ret);

/* session.json.  1 if a session is open, 0 if none is, -1 with a message. */
int replica_read_session (const struct replica *r, struct open_session *ret);

/* The last number that was given to a generation. */
int replica_read_last (const struct replica *r, uint64_t *ret);

/* Give the replica an identity if it has none, or has that of another copy. */
int replica_settle_identity (const struct replica *r);

/* Point 'current' to a generation, durably. */
int replica_switch_current (const struct replica *r, uint64_t generation);

#endif /* NBDSYNC_REPLICA_PRIVATE_H */
