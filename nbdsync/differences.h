/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the current image of a replica's disk may differ from an older
 * generation, and how that travels between the agents: an array of numbers,
 * offset and length of each range in turn, in bytes, ascending.
 */
#ifndef NBDSYNC_DIFFERENCES_H
#define NBDSYNC_DIFFERENCES_H

#include <stdint.h>
#include <jansson.h>

#include "replica.h"
#include "runs.h"

#define DIFFERENCES_MAX 200000  /* ranges in an answer: a line of some MB */

/* What the images above generation 'since', which must be in the disk's
 * history (replica-history.h), hold.  If those are too many ranges, narrow
 * gaps between them become part of them.  'dir' is a private directory.
 * -1 with a message.
 */
int differences_find (const struct replica *r, const char *dir,
                      const char *disk, uint64_t since, struct runs *ret);

/* A new reference; NULL with a message if out of memory. */
json_t *differences_encode (const struct runs *runs);

/* From what may be anything.  -1 with a message if it is not a list of
 * ranges of a disk of this size.
 */
int differences_parse (const json_t *json, uint64_t size, struct runs *ret);

#endif /* NBDSYNC_DIFFERENCES_H */
