/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What jansson leaves to its user: release at the end of a scope, and
 * typed reads of members that come from outside and may be anything.
 */
#ifndef NBDSYNC_JSON_H
#define NBDSYNC_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#define CLEANUP_JSON __attribute__ ((cleanup (cleanup_json)))

static inline void
cleanup_json (json_t **json)
{
  json_decref (*json);
}

/* Read member 'key' of an object.  Return 0 and set *ret if it is there
 * and of the right type and range, -1 (no message, *ret untouched) if not.
 */
int json_get_u64 (const json_t *object, const char *key, uint64_t *ret);
int json_get_bool (const json_t *object, const char *key, bool *ret);

/* The string member 'key', owned by the object; NULL if there is none,
 * it is not a string, or it has a NUL inside.
 */
const char *json_get_string (const json_t *object, const char *key);

/* Read a whole JSON object from a file of at most 'max' bytes.  Duplicate
 * keys and anything after the object are refused.  Returns a new
 * reference, or NULL with a message and errno set (ENOENT, without a
 * message, if there is no file; EBADMSG if it is not what it should be).
 */
json_t *json_read_file (int dirfd, const char *path, size_t max);

/* Write a JSON object as a file: whole, synced and renamed into place,
 * the directory synced as well.  Mode is 0600.  Returns -1 with a message.
 */
int json_write_file (int dirfd, const char *path, const json_t *json);

#endif /* NBDSYNC_JSON_H */
