/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Room for a spool.  No state.
 *
 * When a write to the spool fails while QEMU copies a block that the guest
 * is about to overwrite, the guest's write may fail too (QEMU's default).  So
 * the blocks are allocated beyond the end of the file first; QEMU's writes
 * then land in them.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "reserve.h"

#define CLUSTER_BYTES UINT64_C (65536)
#define L2_COVERS_BYTES (CLUSTER_BYTES * (CLUSTER_BYTES / 8))
#define REFBLOCK_COVERS_BYTES (CLUSTER_BYTES * (CLUSTER_BYTES / 2))
#define FIXED_BYTES (16 * CLUSTER_BYTES)
#define KEEP_FREE_BYTES (UINT64_C (64) << 20)

static uint64_t
div_up (uint64_t a, uint64_t b)
{
  return a / b + (a % b != 0);
}

uint64_t
reserve_estimate (uint64_t data, uint64_t size, uint64_t granularity)
{
  uint64_t clusters = div_up (data, CLUSTER_BYTES);
  uint64_t tables = div_up (size, L2_COVERS_BYTES);
  uint64_t bytes = clusters * CLUSTER_BYTES;

  bytes += (clusters < tables ? clusters : tables) * CLUSTER_BYTES;
  bytes += div_up (tables * 8, CLUSTER_BYTES) * CLUSTER_BYTES; /* L1 */
  bytes += div_up (div_up (size, granularity) / 8, CLUSTER_BYTES)
    * CLUSTER_BYTES;
  bytes += (div_up (bytes, REFBLOCK_COVERS_BYTES) + 1) * CLUSTER_BYTES;
  return bytes + FIXED_BYTES;
}

bool
reserve_is_low (int fd)
{
  struct statvfs fs;
  uint64_t keep;

  if (fstatvfs (fd, &fs) == -1)
    return false;
  keep = fs.f_blocks / 20 * fs.f_frsize;
  if (keep > KEEP_FREE_BYTES)
    keep = KEEP_FREE_BYTES;
  return (uint64_t) fs.f_bavail * fs.f_frsize < keep;
}

int
reserve_space (int fd, uint64_t bytes)
{
  struct statvfs fs;
  int r;

  do
    r = fallocate (fd, FALLOC_FL_KEEP_SIZE, 0, bytes);
  while (r == -1 && errno == EINTR);
  if (r == -1 && errno == EOPNOTSUPP)
    r = fstatvfs (fd, &fs) == 0 &&
      (uint64_t) fs.f_bavail * fs.f_frsize < bytes ? (errno = ENOSPC, -1) : 0;
  if (r == 0 && reserve_is_low (fd)) {
    errno = ENOSPC;
    r = -1;
  }
  return r;
}

int
reserve_trim (int fd)
{
  struct stat st;

  return fstat (fd, &st) == -1 ? -1 : ftruncate (fd, st.st_size);
}
