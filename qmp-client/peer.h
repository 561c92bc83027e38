/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The process at the other end of a monitor, if it is one of this host.
 */
#ifndef NBDSYNC_PEER_H
#define NBDSYNC_PEER_H

#include "qmp.h"

/* Give a file or directory of ours to the user that the process runs as,
 * who must be able to open it; does nothing if that is not known (tcp:) or
 * is us.  -1 with a message.
 */
int peer_own (const struct qmp *qmp, const char *path);

/* The absolute form of a file name that QEMU was given relative to a
 * directory of its own, which it may have left (-daemonize): allocated;
 * NULL without a message if that cannot be found out.
 */
char *peer_path (const struct qmp *qmp, const char *name);

#endif /* NBDSYNC_PEER_H */
