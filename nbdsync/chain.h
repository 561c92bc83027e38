/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Chains at the source: their locks and their bitmaps.  A tag is the first
 * eight characters of a chain's UUID.
 */
#ifndef NBDSYNC_CHAIN_H
#define NBDSYNC_CHAIN_H

#include <stdbool.h>

#include "qmp.h"

/* Take the lock of a chain, waiting up to timeout_ms for it.  Returns a
 * descriptor that holds it as long as it is open; -1 with a message that
 * names the disk, errno EBUSY if a session or a recovery has it.
 */
int chain_lock (const char *tag, const char *disk, int timeout_ms);

/* Remove the chain's bitmaps on a node but 'keep' ("": all of them), or only
 * those of passes.  -1 with a message; goes on after a failure.
 */
int chain_remove_bitmaps (struct qmp *qmp, const char *node, const char *tag,
                          const char *keep, bool passes_only);

#endif /* NBDSYNC_CHAIN_H */
