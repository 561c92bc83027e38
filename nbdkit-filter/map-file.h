/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A map from a file.
 */
#ifndef NBDSYNC_SEND_MAP_FILE_H
#define NBDSYNC_SEND_MAP_FILE_H

#include "runs.h"

/* Read a list in the format of nbdkit-extentlist-filter(1).  -1 with a
 * message that names the line.
 */
int map_read_file (const char *path, struct runs *ret);

#endif /* NBDSYNC_SEND_MAP_FILE_H */
