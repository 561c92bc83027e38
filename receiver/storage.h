/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The private qemu-storage-daemon through which images are written, and its
 * NBD server on a socket that only we can reach.  One for the process; all
 * functions are thread-safe.  They return 0, or -1 with a message.
 */
#ifndef NBDSYNC_STORAGE_H
#define NBDSYNC_STORAGE_H

#include <stdbool.h>

#include "image.h"

/* Start it, from the thread that lives as long as the process.  It holds
 * lock_fd open (-1: nothing), so that a lock ends only when all writing has.
 */
int storage_start (int lock_fd);

/* Close everything and end it.  Does nothing if it does not run. */
void storage_stop (void);

/* Open an image (the first layer) on its backing files for writing, and
 * export it under the name that storage_export_name gives for 'id'.  Its
 * clusters' size goes to *ret_cluster_bytes; 0: it has none.
 */
int storage_open (unsigned id, const layers *l, uint64_t *ret_cluster_bytes);

/* End the export and close the image.  No message if all there is to say is
 * that the daemon has died and that was said before.
 */
int storage_close (unsigned id);

#define STORAGE_EXPORT_CHARS 16
void storage_export_name (unsigned id, char ret[STORAGE_EXPORT_CHARS]);

/* The path of its NBD socket. */
const char *storage_socket (void);

/* Has it died?  Then how, into a text that the caller tells and frees; else
 * NULL.
 */
char *storage_death (void);

#endif /* NBDSYNC_STORAGE_H */
