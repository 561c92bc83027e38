/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A manifest to and from JSON, and the small conversions that the files of
 * a replica share.  struct manifest itself is in replica.h.
 */
#ifndef NBDSYNC_MANIFEST_H
#define NBDSYNC_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>

#include "replica.h"

#define MANIFEST_FORMAT 1
#define MANIFEST_MAX_BYTES (1 << 20)

/* A new reference; NULL with a message if out of memory. */
json_t *manifest_encode (const struct manifest *m);

/* From JSON that may hold anything.  Returns NULL, or what is wrong with it
 * (a constant string); then *ret is untouched.
 */
const char *manifest_decode (const json_t *json, struct manifest *ret);

/* Session ids in files are 16 hexadecimal digits. */
void session_format (uint64_t session, char ret[SESSION_CHARS + 1]);
bool session_parse (const char *text, uint64_t *ret);

#endif /* NBDSYNC_MANIFEST_H */
