/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Maps of images that nobody serves.  No state.
 */
#include <config.h>

#include "image-map.h"
#include "map.h"

int
image_map_read (const struct reader_spec *spec, unsigned layers,
                const char *socket, struct runs *ret)
{
  struct map_source source = {
    .socket = socket, .export = READER_EXPORT, .bitmap = spec->bitmap,
    .layers = layers,
  };
  struct process reader = { 0 };
  uint64_t size;
  int r;

  if (reader_start (&reader, spec, socket) == -1)
    return -1;
  r = map_read (&source, ret, &size);
  reader_stop (&reader, socket);
  return r;
}
