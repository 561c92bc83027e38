/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Did clusters move while a pass read an image from outside?
 */
#ifndef NBDSYNC_PRECOPY_H
#define NBDSYNC_PRECOPY_H

#include <stddef.h>
#include <stdint.h>

#include "disks.h"
#include "qmp.h"

struct precopy_state {
  char *node, *file;            /* of the active layer */
  char *chain;                  /* file names of all layers, as JSON */
  char *snapshots;              /* internal snapshots, as JSON */
  uint64_t size;
  uint64_t l1_offset;           /* qcow2 only, 0 otherwise */
  uint64_t *l1;                 /* its entries, host byte order */
  size_t l1_entries;
};

/* Remember how the image lies.  Call it when the pass's bitmap has been
 * added and the disk flushed (flush_disk), before the reader is started.
 * -1 with a message.  Free *state with precopy_state_reset.
 */
int precopy_begin (struct qmp *qmp, const struct disk *disk,
                   struct precopy_state *state);

/* At the end of the pass, when the disk has been flushed again: is it true
 * that nothing moved?  -1 with a message that says what voids the pass
 * (errno ESTALE), or why that cannot be told (any other).
 */
int precopy_check (struct qmp *qmp, const struct disk *disk,
                   const struct precopy_state *state);

void precopy_state_reset (struct precopy_state *state);

#endif /* NBDSYNC_PRECOPY_H */
