/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The temporary file.  The lock guards the list of free slots and the
 * making of the file; reading and writing need none, since a slot has one
 * owner.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "cleanup.h"
#include "frame.h"
#include "spill.h"

#define SPILL_SLOT_BYTES (INT64_C (36) << 20)
_Static_assert (SPILL_SLOT_BYTES >= FRAME_MAX_BYTES, "a slot holds a frame");

DEFINE_VECTOR (slots, int64_t)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *directory;
static int file = -1;
static slots free_slots;
static int64_t nr_slots;

void
spill_init (const char *dir)
{
  directory = dir;
}

/* Not every file system has files without a name. */
static int
open_unlinked (void)
{
  CLEANUP_FREE char *path = NULL;
  int fd = open (directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

  if (fd != -1 || (errno != EOPNOTSUPP && errno != EISDIR))
    return fd;
  if (asprintf (&path, "%s/.nbdsync-XXXXXX", directory) == -1) {
    path = NULL;
    return -1;
  }
  fd = mkostemp (path, O_CLOEXEC);
  if (fd != -1)
    unlink (path);
  return fd;
}

int64_t
spill_take (void)
{
  LOCK_FOR_SCOPE (&lock);
  if (file == -1) {
    file = open_unlinked ();
    if (file == -1)
      return -1;
  }
  if (free_slots.len > 0)
    return free_slots.ptr[--free_slots.len];
  return nr_slots++;
}

void
spill_give (int64_t slot)
{
  LOCK_FOR_SCOPE (&lock);
  /* A slot that cannot be emptied must not be used again. */
  if (fallocate (file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                 slot * SPILL_SLOT_BYTES, SPILL_SLOT_BYTES) == 0)
    slots_append (&free_slots, slot);
}

int
spill_write (int64_t slot, size_t offset, const void *buf, size_t n)
{
  while (n > 0) {
    ssize_t r = pwrite (file, buf, n, slot * SPILL_SLOT_BYTES + offset);

    if (r == -1 && errno == EINTR)
      continue;
    if (r == -1)
      return -1;
    buf = (const char *) buf + r;
    offset += r;
    n -= r;
  }
  return 0;
}

int
spill_read (int64_t slot, size_t offset, void *buf, size_t n)
{
  while (n > 0) {
    ssize_t r = pread (file, buf, n, slot * SPILL_SLOT_BYTES + offset);

    if (r == -1 && errno == EINTR)
      continue;
    if (r == -1)
      return -1;
    if (r == 0) {               /* behind the last byte written: zeroes */
      memset (buf, 0, n);
      return 0;
    }
    buf = (char *) buf + r;
    offset += r;
    n -= r;
  }
  return 0;
}

void
spill_close (void)
{
  if (file != -1)
    close (file);
  file = -1;
  slots_reset (&free_slots);
  nr_slots = 0;
}
