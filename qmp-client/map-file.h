/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A map file carries a bitmap out of a running QEMU: an empty qcow2 file
 * whose persistent bitmap MAP_BITMAP (spool.h) has the bits.
 */
#ifndef NBDSYNC_MAP_FILE_H
#define NBDSYNC_MAP_FILE_H

#include <stdint.h>

#include "disks.h"
#include "qmp.h"

/* Make 'path' (in a private directory) from the bitmap as it is now.  -1
 * with a message; then there is no file and nothing is left in QEMU.
 */
int map_take (struct qmp *qmp, const struct disk *disk, const char *bitmap,
              uint64_t granularity, const char *path, const char *tag);

#endif /* NBDSYNC_MAP_FILE_H */
