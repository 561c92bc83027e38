/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reading the L1 table of a qcow2 file that QEMU writes to.  Nothing in
 * the file is believed: what bounds memory and offsets is checked first.
 * Format: docs/interop/qcow2.txt of QEMU.
 */
#include <config.h>

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "log.h"
#include "qcow2.h"

#define BLOCK_BYTES 4096        /* enough for O_DIRECT on any device */
#define L1_MAX_BYTES (32 << 20) /* QEMU's own limit */
#define HEADER_L1_SIZE 36
#define HEADER_L1_OFFSET 40
#define MAGIC 0x514649fbU

static uint32_t
get_be32 (const unsigned char *p)
{
  uint32_t v;

  memcpy (&v, p, sizeof v);
  return be32toh (v);
}

static uint64_t
get_be64 (const unsigned char *p)
{
  uint64_t v;

  memcpy (&v, p, sizeof v);
  return be64toh (v);
}

static int
open_past_cache (const char *file)
{
  int fd = open (file, O_RDONLY | O_DIRECT | O_CLOEXEC);

  if (fd == -1 && errno == EINVAL) {
    fd = open (file, O_RDONLY | O_CLOEXEC);
    if (fd != -1)
      posix_fadvise (fd, 0, 0, POSIX_FADV_DONTNEED);
  }
  return fd;
}

/* Read whole blocks; 0 if 'need' bytes came, -1 with errno. */
static int
read_blocks (int fd, unsigned char *buf, size_t bytes, uint64_t offset,
             size_t need)
{
  size_t n = 0;

  while (n < need) {
    ssize_t r = pread (fd, buf + n, bytes - n, offset + n);

    if (r == -1 && errno == EINTR)
      continue;
    if (r == -1)
      return -1;
    n += r;
    if (r == 0 || (n < need && n % BLOCK_BYTES != 0)) {
      errno = EBADMSG;          /* the file ends before */
      return -1;
    }
  }
  return 0;
}

static unsigned char *
block_buffer (size_t bytes)
{
  void *p = NULL;

  return posix_memalign (&p, BLOCK_BYTES, bytes) == 0 ? p : NULL;
}

int
qcow2_read_l1 (const char *file, uint64_t *ret_offset, uint64_t **ret_l1,
               size_t *ret_entries)
{
  CLEANUP_FD int fd = open_past_cache (file);
  CLEANUP_FREE unsigned char *header = NULL, *table = NULL;
  uint64_t offset, start, *l1;
  size_t entries, bytes;

  if (fd == -1) {
    log_error ("%s: %m", file);
    return -1;
  }
  header = block_buffer (BLOCK_BYTES);
  if (!header || read_blocks (fd, header, BLOCK_BYTES, 0, 104) == -1)
    goto err;
  entries = get_be32 (header + HEADER_L1_SIZE);
  offset = get_be64 (header + HEADER_L1_OFFSET);
  if (get_be32 (header) != MAGIC || get_be32 (header + 4) < 2 ||
      get_be32 (header + 4) > 3 || entries > L1_MAX_BYTES / 8 ||
      offset % 512 != 0 || offset > INT64_MAX - L1_MAX_BYTES) {
    errno = EBADMSG;
    goto err;
  }
  start = offset / BLOCK_BYTES * BLOCK_BYTES;
  bytes = (offset - start + entries * 8 + BLOCK_BYTES - 1) / BLOCK_BYTES
    * BLOCK_BYTES;
  table = block_buffer (bytes + BLOCK_BYTES);
  l1 = calloc (entries + 1, sizeof *l1);
  if (!table || !l1 ||
      read_blocks (fd, table, bytes, start, offset - start + entries * 8)
      == -1) {
    free (l1);
    goto err;
  }
  for (size_t i = 0; i < entries; i++)
    l1[i] = get_be64 (table + (offset - start) + i * 8);
  *ret_offset = offset;
  *ret_l1 = l1;
  *ret_entries = entries;
  return 0;

 err:
  if (errno == EBADMSG)
    log_error ("%s: no qcow2 image, or a damaged one", file);
  else
    log_error ("%s: reading its L1 table: %m", file);
  return -1;
}
