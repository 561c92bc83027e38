/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One flush request to a vhost-user-blk export.
 */
#ifndef NBDSYNC_VHOST_FLUSH_H
#define NBDSYNC_VHOST_FLUSH_H

/* Connect to the export's socket, send a flush and wait for its end within
 * timeout_ms.  -1 with a message.
 */
int vhost_flush (const char *socket_path, int timeout_ms);

#endif /* NBDSYNC_VHOST_FLUSH_H */
