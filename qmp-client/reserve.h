/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Room for a spool: taken before QEMU begins to write, so that a file
 * system that somebody fills meanwhile does not fail the guest's writes.
 */
#ifndef NBDSYNC_RESERVE_H
#define NBDSYNC_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that a qcow2 file needs for 'data' bytes of a disk of 'size' bytes
 * and a bitmap of this granularity, at worst.
 */
uint64_t reserve_estimate (uint64_t data, uint64_t size,
                           uint64_t granularity);

/* Reserve the first 'bytes' of a file without changing its length; where
 * the file system cannot do that, see that they are free.  In both cases
 * some space is left to others.  -1 with errno, ENOSPC if there is no room;
 * no message.
 */
int reserve_space (int fd, uint64_t bytes);

/* Is so little space left that it is time to stop?  (64 MiB or 5 %,
 * whichever is less.)
 */
bool reserve_is_low (int fd);

/* Give back what is reserved beyond the end of the file. */
int reserve_trim (int fd);

#endif /* NBDSYNC_RESERVE_H */
