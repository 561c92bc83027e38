/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Our dirty bitmaps: their names, their life.
 */
#ifndef NBDSYNC_BITMAPS_H
#define NBDSYNC_BITMAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "disks.h"
#include "qmp.h"

#define CHAIN8_CHARS 8
/* "nbdsync-" chain8 "-" generation "-p" pass, NUL */
#define BITMAP_NAME_MAX 64

/* nbdsync-<first 8 of chain>-<generation>[-p<pass>]; pass 0: none. */
void bitmap_name (const char *chain, uint64_t generation, uint64_t pass,
                  char ret[BITMAP_NAME_MAX]);

/* The first 8 characters of a chain: the tag of nodes, jobs and files. */
void chain_tag (const char *chain, char ret[CHAIN8_CHARS + 1]);

/* Read a name back; false if it is not one that bitmap_name made. */
bool bitmap_parse_name (const char *name, char ret_chain8[CHAIN8_CHARS + 1],
                        uint64_t *ret_generation, uint64_t *ret_pass);

/* 4 KiB, doubled until a bitmap of the disk takes at most 64 MiB. */
uint64_t bitmap_default_granularity (uint64_t disk_bytes);

/* Add an enabled bitmap, persistent where the disk can.  -1 with a
 * message, also if it is there already.
 */
int bitmap_add (struct qmp *qmp, const struct disk *disk, const char *name,
                uint64_t granularity);

/* The same as an action of a transaction; NULL if out of memory. */
json_t *bitmap_add_action (const struct disk *disk, const char *name,
                           uint64_t granularity);

/* Remove it; that there is none is success. */
int bitmap_remove (struct qmp *qmp, const char *node, const char *name);

/* Add the bits of 'from' on 'from_node' to 'to' on 'node'. */
int bitmap_merge (struct qmp *qmp, const char *node, const char *to,
                  const char *from_node, const char *from);

/* Bytes that a spool of this bitmap's blocks will copy, which goes by
 * 64 KiB (or clusters, if those are larger): counted by a temporary bitmap
 * of ours that is gone afterwards.
 */
int bitmap_spool_bytes (struct qmp *qmp, const struct disk *disk,
                        const char *name, const char *tag,
                        uint64_t *ret_bytes);

#endif /* NBDSYNC_BITMAPS_H */
