/* SPDX-License-Identifier: BSD-3-Clause
 *
 * delta-qmp: is the bitmap what it is taken for?
 */
#ifndef NBDSYNC_BITMAP_CHECK_H
#define NBDSYNC_BITMAP_CHECK_H

#include <stdint.h>

#include "qmp.h"

struct bitmap_state {
  uint64_t count;               /* dirty bytes, in whole granules */
  uint64_t granularity;
};

/* Ask QEMU for the state of a bitmap.  -1 with a message if it is not on
 * the node itself, not recording, or inconsistent.
 */
int bitmap_check_state (struct qmp *qmp, const char *node,
                        const char *bitmap, struct bitmap_state *ret);

/* Do the bytes that NBD called dirty, of a disk of 'size' bytes, agree
 * with the states before and after they were read?  -1 with a message.
 */
int bitmap_check_count (const char *bitmap, uint64_t dirty_bytes,
                        bool dirty_at_end, uint64_t size,
                        const struct bitmap_state *before,
                        const struct bitmap_state *after);

#endif /* NBDSYNC_BITMAP_CHECK_H */
