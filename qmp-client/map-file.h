/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A map file carries a bitmap out of a running QEMU: an empty qcow2 file
 * whose persistent bitmap MAP_BITMAP (spool.h) has the bits.
 */
#ifndef NBDSYNC_MAP_FILE_H
#define NBDSYNC_MAP_FILE_H

#include <stdint.h>

#include "qmp.h"

/* Make 'path' (in a private directory) from the bitmap of a node as it is
 * now; size is the node's.  -1 with a message; then there is no file and
 * nothing is left in QEMU.
 */
int map_take (struct qmp *qmp, const char *from_node, const char *bitmap,
              uint64_t size, uint64_t granularity, const char *path,
              const char *tag);

#endif /* NBDSYNC_MAP_FILE_H */
