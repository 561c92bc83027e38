/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Let S be the disk now, B its content at the instant of the bitmap's
 * generation, R what the replica has.  S and B differ only where the bitmap
 * says so or an image above the bitmap's holds something; B and R differ
 * only where the replica has something over that generation.  So S and R
 * are equal outside of the union of the three.
 *
 * The bitmap comes by a map file, which was taken inside QEMU; the images
 * are asked from outside, after the disk was flushed: what is allocated
 * later is in the bitmap of the pass.  No state.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "cleanup.h"
#include "compose.h"
#include "log.h"
#include "map.h"
#include "reader.h"
#include "spool.h"

/* Serve an image while its map is read. */
static int
read_map (const struct compose_spec *s, const struct reader_spec *image,
          struct map_source source, struct runs *ret)
{
  CLEANUP_FREE char *socket = NULL;
  struct process reader = { 0 };
  uint64_t size;
  int r;

  if (asprintf (&socket, "%s/%s.list", s->dir, s->name) == -1) {
    socket = NULL;
    log_error ("%s: out of memory", s->name);
    return -1;
  }
  if (reader_start (&reader, image, socket) == -1)
    return -1;
  source.socket = socket;
  source.export = READER_EXPORT;
  r = map_read (&source, ret, &size);
  reader_stop (&reader, socket);
  return r;
}

static int
read_bitmap (const struct compose_spec *s, struct runs *ret)
{
  struct reader_spec image = {
    .driver = "qcow2", .filename = s->map, .bitmap = MAP_BITMAP,
  };

  return read_map (s, &image, (struct map_source) { .bitmap = MAP_BITMAP },
                   ret);
}

static int
read_images (const struct compose_spec *s, struct runs *ret)
{
  struct reader_spec image = {
    .driver = s->disk->driver, .filename = s->disk->file, .running = true,
    .backing = &s->disk->backing, .allocation_depth = true,
  };

  if (s->above == 0)
    return 0;
  return read_map (s, &image, (struct map_source) { .layers = s->above },
                   ret);
}

int
compose_list (const struct compose_spec *s, const char *path,
              uint64_t *ret_bytes)
{
  struct runs bitmap = { 0 }, images = { 0 }, source = { 0 }, all = { 0 };
  int r = -1;

  if (read_bitmap (s, &bitmap) == 0 && read_images (s, &images) == 0) {
    if (runs_union (&bitmap, &images, &source) == -1 ||
        runs_union (&source, s->differences, &all) == -1)
      log_error ("%s: out of memory", s->name);
    else
      r = runs_write (&all, path);
    *ret_bytes = all.total;
    log_debug ("%s: %" PRIu64 " bytes by its bitmap, %" PRIu64 " by images "
               "above it, %" PRIu64 " by the replica: together %" PRIu64,
               s->name, bitmap.total, images.total, s->differences->total,
               all.total);
  }
  runs_reset (&bitmap);
  runs_reset (&images);
  runs_reset (&source);
  runs_reset (&all);
  return r;
}
