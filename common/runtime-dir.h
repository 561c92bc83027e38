/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Private directories for sockets and small files, which do not outlive
 * their process by long.
 */
#ifndef NBDSYNC_RUNTIME_DIR_H
#define NBDSYNC_RUNTIME_DIR_H

/* A private directory (0700) below $XDG_RUNTIME_DIR, /run or /tmp, whichever
 * can be written and is short enough for sockets in it.  What killed
 * processes of ours left there is removed first.  The caller frees the name
 * and removes the directory.  NULL with a message.
 */
char *runtime_dir_create (void);

/* Remove such a directory, or another that has only files in it. */
void runtime_dir_remove (const char *dir);

#endif /* NBDSYNC_RUNTIME_DIR_H */
