/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A guest's work that can be replayed: see workload.c.
 */
#ifndef NBDSYNC_TEST_WORKLOAD_H
#define NBDSYNC_TEST_WORKLOAD_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <libnbd.h>

#include "vector.h"

#define SECTOR 512
#define OP_MAX_SECTORS 2048     /* 1 MiB */

enum op_kind { OP_WRITE, OP_TRIM, OP_ZERO, OP_ZERO_NO_HOLE };
extern const char *const op_names[4];

struct run {
  uint32_t sector, count;
};
DEFINE_VECTOR (runs, struct run)

struct op {
  enum op_kind kind;
  struct run at;
  bool done[2];                 /* on disk A, on disk B */
  runs zero[2];                 /* a trim's: what read zero after it */
};
DEFINE_VECTOR (ops, struct op)

/* What word of a sector that operation k wrote: it names its place too, so
 * that data at a wrong place is seen.
 */
static inline uint64_t
sector_word (uint32_t k, uint32_t sector)
{
  return htole64 ((uint64_t) k << 32 | sector);
}

/* The operation that wrote this sector, 0 if it is zeroes, SECTOR_BAD if
 * it is not wholly one or the other.
 */
#define SECTOR_BAD UINT32_MAX
uint32_t sector_writer (const void *data, uint32_t sector);

/* Parse a log; ops.ptr[k - *ret_first] is operation k.  Exits if it is not
 * one.
 */
void log_read (const char *path, ops *ret, uint32_t *ret_first);

void nbd_die (const char *object) __attribute__ ((noreturn));

int workload_write (int argc, char **argv);
int workload_check (int argc, char **argv);

#endif
