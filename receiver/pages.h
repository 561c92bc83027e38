/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Large buffers straight from the kernel: zero until written, grown without
 * copying, and given back at once, so that what is resident is what is
 * held (malloc would keep it in the arenas of nbdkit's threads).
 */
#ifndef NBDSYNC_PAGES_H
#define NBDSYNC_PAGES_H

#include <stddef.h>
#include <sys/mman.h>

struct pages {
  unsigned char *ptr;
  size_t bytes;                 /* 0: no buffer */
};

/* Change the size.  -1 if out of memory, and nothing is changed. */
static inline int
pages_resize (struct pages *p, size_t bytes)
{
  void *ptr = p->bytes == 0
    ? mmap (NULL, bytes, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    : mremap (p->ptr, p->bytes, bytes, MREMAP_MAYMOVE);

  if (ptr == MAP_FAILED)
    return -1;
  p->ptr = ptr;
  p->bytes = bytes;
  return 0;
}

static inline void
pages_free (struct pages *p)
{
  if (p->bytes > 0)
    munmap (p->ptr, p->bytes);
  p->ptr = NULL;
  p->bytes = 0;
}

#endif /* NBDSYNC_PAGES_H */
