/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A replica as JSON, for agents and "nbdsync status --json".
 */
#ifndef NBDSYNC_REPLICA_JSON_H
#define NBDSYNC_REPLICA_JSON_H

#include <jansson.h>

#include "replica.h"

/* Members id, last and copied (of struct replica_identity), generation (0:
 * none yet), time, checked, session (as 16 hexadecimal digits) and disks:
 * name, chain, size, base, image_bytes, source.  A new reference; NULL with a
 * message.
 */
json_t *replica_to_json (const struct replica *r);

#endif /* NBDSYNC_REPLICA_JSON_H */
