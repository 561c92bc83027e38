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
#include "image-map.h"
#include "log.h"
#include "spool.h"

static int
read_bitmap (const struct compose_spec *s, const char *socket,
             struct runs *ret)
{
  struct reader_spec image = {
    .driver = "qcow2", .filename = s->map, .bitmap = MAP_BITMAP,
  };

  return image_map_read (&image, 0, socket, ret);
}

static int
read_images (const struct compose_spec *s, const char *socket,
             struct runs *ret)
{
  struct reader_spec image = {
    .driver = s->disk->driver, .filename = s->disk->file, .running = true,
    .backing = &s->disk->backing, .allocation_depth = true,
  };

  return s->above > 0 ? image_map_read (&image, s->above, socket, ret) : 0;
}

static int
write_union (const struct compose_spec *s, const struct runs *bitmap,
             const struct runs *images, const char *path)
{
  struct runs source = { 0 }, all = { 0 };
  int r = -1;

  if (runs_union (bitmap, images, &source) == -1 ||
      runs_union (&source, s->differences, &all) == -1)
    log_error ("%s: out of memory", s->name);
  else {
    log_debug ("%s: %" PRIu64 " bytes by its bitmap, %" PRIu64 " by images "
               "above it, %" PRIu64 " by the replica: together %" PRIu64,
               s->name, bitmap->total, images->total,
               s->differences->total, all.total);
    r = runs_write (&all, path);
  }
  runs_reset (&source);
  runs_reset (&all);
  return r;
}

int
compose_list (const struct compose_spec *s, const char *path)
{
  CLEANUP_FREE char *socket = NULL;
  struct runs bitmap = { 0 }, images = { 0 };
  int r = -1;

  if (asprintf (&socket, "%s/%s.list", s->dir, s->name) == -1) {
    socket = NULL;
    log_error ("%s: out of memory", s->name);
    return -1;
  }
  if (read_bitmap (s, socket, &bitmap) == 0 &&
      read_images (s, socket, &images) == 0)
    r = write_union (s, &bitmap, &images, path);
  runs_reset (&bitmap);
  runs_reset (&images);
  return r;
}
