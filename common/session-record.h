/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The session record: what frame 0 says of the frames behind it.  Format
 * and meaning of each member are in nbdsync-formats(5).
 */
#ifndef NBDSYNC_SESSION_RECORD_H
#define NBDSYNC_SESSION_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "vector.h"

#define UUID_CHARS 36
#define DISK_NAME_MAX 64        /* characters */
#define DISKS_MAX 64

DEFINE_VECTOR (strings, char *)

struct session_record {
  char chain[UUID_CHARS + 1];   /* of this source disk -> this replica */
  char former[UUID_CHARS + 1];  /* chain that a full replaces; "": none */
  uint64_t base;                /* generation that this builds on; 0: full */
  uint64_t target;              /* generation it makes; 0: receiver gives */
  char disk[DISK_NAME_MAX + 1];
  strings disks;                /* all disks of the session, owned */
  uint64_t size;                /* virtual size in bytes */
  uint64_t frames;              /* batches: frames 1 .. frames */
  uint64_t data_bytes;          /* planned bytes of data */
  uint64_t granularity;         /* bytes; 0 if not by a bitmap */
  uint64_t cluster_size;        /* wanted in new images; 0: QEMU's default */
  uint64_t pass;                /* 1 ... */
  bool final;                   /* this pass makes the generation */
  char *source;                 /* host and image, for people; owned */
  uint64_t started;             /* seconds since the Epoch */
};

void session_record_reset (struct session_record *r);

/* As JSON, a new reference; NULL with a message if out of memory. */
json_t *session_record_encode (const struct session_record *r);

/* From JSON that may hold anything.  Absent members other than those that
 * a stream cannot do without (format, chain, disk, disks, size, frames,
 * pass, final) are 0 or NULL.  Returns NULL, or what is wrong with it (a
 * constant string); then *ret is untouched.  Reset it when done.
 */
const char *session_record_decode (const json_t *json,
                                   struct session_record *ret);

/* Letters, digits, '.', '_', '-', ':', '+', '@' and '#', at most
 * DISK_NAME_MAX of them, not starting with '.' or '-': safe as a file name,
 * an export name and in a terminal.
 */
bool disk_name_ok (const char *name);

/* 8-4-4-4-12 lower-case hexadecimal digits. */
bool uuid_ok (const char *text);

/* A random (version 4) UUID; 64 random bits.  -1 with a message if the
 * kernel has no randomness.
 */
int uuid_generate (char ret[UUID_CHARS + 1]);

/* The UUID (version 8, of XXH3-128) that these two texts always give. */
void uuid_derive (const char *a, const char *b, char ret[UUID_CHARS + 1]);
int random_u64 (uint64_t *ret);

#endif /* NBDSYNC_SESSION_RECORD_H */
