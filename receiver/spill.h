/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The temporary file for pieces of frames that do not fit into memory: one
 * unlinked sparse file for the process, made when it is first needed, cut
 * into slots that each hold one frame.  Thread-safe.
 */
#ifndef NBDSYNC_SPILL_H
#define NBDSYNC_SPILL_H

#include <stddef.h>
#include <stdint.h>

/* Where to make it; 'dir' must stay valid. */
void spill_init (const char *dir);

/* A slot that reads as zeroes.  -1 with errno set. */
int64_t spill_take (void);

/* Give it, and its space, back. */
void spill_give (int64_t slot);

/* 0, or -1 with errno set. */
int spill_write (int64_t slot, size_t offset, const void *buf, size_t n);
int spill_read (int64_t slot, size_t offset, void *buf, size_t n);

void spill_close (void);

#endif /* NBDSYNC_SPILL_H */
