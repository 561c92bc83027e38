/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The one thing that we read of a qcow2 file ourselves: its L1 table.
 */
#ifndef NBDSYNC_QCOW2_H
#define NBDSYNC_QCOW2_H

#include <stddef.h>
#include <stdint.h>

#define QCOW2_OFFSET_MASK UINT64_C (0x00fffffffffffe00)
#define QCOW2_COPIED (UINT64_C (1) << 63)

/* Read it past the page cache where that is possible.  *ret_l1 is the
 * caller's to free, NULL if it has no entries.  -1 with a message.
 */
int qcow2_read_l1 (const char *file, uint64_t *ret_offset,
                   uint64_t **ret_l1, size_t *ret_entries);

#endif /* NBDSYNC_QCOW2_H */
