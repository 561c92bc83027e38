/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What qemu-img tells of image files, and how to open one.
 */
#ifndef NBDSYNC_IMAGE_H
#define NBDSYNC_IMAGE_H

#include <stdbool.h>
#include <jansson.h>

/* Call qemu-img info --backing-chain on a file that somebody may have open;
 * format NULL: probed.  A new reference to the array of layers, the active
 * one first; NULL with a message.
 */
json_t *image_chain (const char *file, const char *format);

/* "file" or "host_device"; NULL with a message if it cannot be looked at. */
const char *image_file_driver (const char *file);

/* Does its file system take O_DIRECT? */
bool image_can_direct (const char *file);

#endif /* NBDSYNC_IMAGE_H */
