/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The images of a replica are overlays: what a generation has over an older
 * one is what the images between them hold, whatever was written to those.
 * A storage daemon of ours tells (qemu:allocation-depth), so that nobody
 * but QEMU reads qcow2.  No state.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cleanup.h"
#include "differences.h"
#include "image-map.h"
#include "log.h"
#include "replica-history.h"

#define NARROW_BYTES 65536      /* a gap; twice that if still too many ... */

/* How many images are above that generation; 0 with a message. */
static unsigned
layers_above (const struct replica *r, const char *disk, uint64_t since)
{
  pasts below = { 0 };
  unsigned n = 0;

  if (replica_history (r, disk, &below) == 0) {
    for (size_t i = 0; i < below.len && n == 0; i++)
      if (below.ptr[i].generation == since)
        n = i + 1;
    if (n == 0)
      log_error ("%s: generation %" PRIu64 " is not below the current one",
                 disk, since);
  }
  pasts_free (&below);
  return n;
}

/* Close the gaps of less than 'narrow' bytes. */
static int
widen (const struct runs *runs, uint64_t narrow, struct runs *ret)
{
  struct run_pos pos = { 0 };
  struct run run, open = { 0 };

  while (runs_next (runs, &pos, &run)) {
    uint64_t end = open.offset + open.length;

    if (open.length > 0 && run.offset - end < narrow) {
      open.length = run.offset + run.length - open.offset;
      continue;
    }
    if (open.length > 0 &&
        runs_append (ret, open.offset, open.length, 0) == -1)
      return -1;
    open = run;
  }
  return open.length > 0 ? runs_append (ret, open.offset, open.length, 0) : 0;
}

int
differences_find (const struct replica *r, const char *dir,
                  const char *disk, uint64_t since, struct runs *ret)
{
  CLEANUP_FREE char *socket = NULL;
  unsigned above = layers_above (r, disk, since);
  struct reader_spec spec = { .driver = "qcow2", .allocation_depth = true };
  strings images = { 0 };
  int rc = -1;

  if (above == 0)
    return -1;
  if (asprintf (&socket, "%s/differences.sock", dir) == -1) {
    socket = NULL;
    log_error ("%s: out of memory", disk);
    return -1;
  }
  if (replica_images (r, disk, &images) == 0) {
    spec.filename = images.ptr[0];
    rc = image_map_read (&spec, above, socket, ret);
  }
  for (size_t i = 0; i < images.len; i++)
    free (images.ptr[i]);
  strings_reset (&images);

  for (uint64_t narrow = NARROW_BYTES;
       rc == 0 && ret->count > DIFFERENCES_MAX; narrow *= 2) {
    struct runs wider = { 0 };

    rc = widen (ret, narrow, &wider);
    if (rc == -1)
      log_error ("%s: out of memory", disk);
    runs_reset (ret);
    *ret = wider;
  }
  return rc;
}

json_t *
differences_encode (const struct runs *runs)
{
  json_t *list = json_array ();
  struct run_pos pos = { 0 };
  struct run run;

  while (list && runs_next (runs, &pos, &run))
    if (json_array_append_new (list, json_integer (run.offset)) == -1 ||
        json_array_append_new (list, json_integer (run.length)) == -1) {
      json_decref (list);
      list = NULL;
    }
  if (!list)
    log_error ("differences: out of memory");
  return list;
}

int
differences_parse (const json_t *json, uint64_t size, struct runs *ret)
{
  size_t n = json_array_size (json);

  if (!json_is_array (json) || n % 2 != 0 || n / 2 > DIFFERENCES_MAX)
    goto malformed;
  for (size_t i = 0; i < n; i += 2) {
    const json_t *offset = json_array_get (json, i);
    const json_t *length = json_array_get (json, i + 1);
    uint64_t from, bytes;

    if (!json_is_integer (offset) || !json_is_integer (length) ||
        json_integer_value (offset) < 0 || json_integer_value (length) <= 0)
      goto malformed;
    from = json_integer_value (offset);
    bytes = json_integer_value (length);
    if (from < ret->end || from > size || bytes > size - from)
      goto malformed;
    if (runs_append (ret, from, bytes, 0) == -1) {
      log_error ("differences: out of memory");
      return -1;
    }
  }
  return 0;

 malformed:
  log_error ("differences: not ranges of the disk");
  errno = EBADMSG;
  return -1;
}
