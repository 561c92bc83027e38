/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Image files: made and looked at with qemu-img.  Functions return 0, or -1
 * with a message.
 */
#ifndef NBDSYNC_IMAGE_H
#define NBDSYNC_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "vector.h"

struct layer {
  char *path;                   /* owned */
  char format[32];
};
DEFINE_VECTOR (layers, struct layer)    /* from the top down */

int layers_push (layers *l, const char *path, const char *format);
void layers_clear (layers *l);

/* Make a new image, mode 0600; there must be none.  cluster_size may be 0.
 * 'backing' is NULL or the name of a qcow2 image, relative to the new one's
 * directory, that need not have the same size.
 */
int image_create (const char *path, const char *format, uint64_t size,
                  uint64_t cluster_size, const char *backing);

/* Look at an image and its backing files: appends them to *ret_layers and
 * sets the virtual size of the first.  Its format is probed if it is NULL.
 */
int image_probe (const char *path, const char *format, layers *ret_layers,
                 uint64_t *ret_size);

#endif /* NBDSYNC_IMAGE_H */
