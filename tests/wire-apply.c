/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wire-apply WIRE OUT: apply the dump of a wire export (a raw file, as
 * nbdcopy makes one) to a raw image, made if it is not there, and print the
 * session record.  For tests: it knows nothing of the filter, only the
 * wire format.
 *
 *   -e   print the extents of all frames instead, "offset length kind",
 *        without an OUT
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

#include "frame.h"
#include "json.h"
#include "session-record.h"

static int wire, out = -1;
static unsigned char *frame, *body;

static void __attribute__ ((format (printf, 1, 2), noreturn))
die (const char *fmt, ...)
{
  va_list ap;

  va_start (ap, fmt);
  vfprintf (stderr, fmt, ap);
  va_end (ap);
  putc ('\n', stderr);
  exit (1);
}

static void
read_all (void *buf, size_t n, uint64_t offset)
{
  if (pread (wire, buf, n, offset) != (ssize_t) n)
    die ("wire: short at %" PRIu64, offset);
}

/* Read frame k into 'frame', and check it. */
static void
read_frame (uint64_t k, struct envelope *ret)
{
  const char *wrong;

  read_all (frame, ENVELOPE_BYTES, k * SLOT_BYTES);
  wrong = envelope_decode (frame, k, ret);
  if (wrong)
    die ("frame %" PRIu64 ": %s", k, wrong);
  read_all (frame + ENVELOPE_BYTES, ret->packed_bytes,
            k * SLOT_BYTES + ENVELOPE_BYTES);
  if (!frame_sum_ok (ret, frame))
    die ("frame %" PRIu64 ": checksum", k);
}

static void
write_all (const void *buf, size_t n, uint64_t offset)
{
  while (n > 0) {
    ssize_t r = pwrite (out, buf, n, offset);

    if (r == -1)
      die ("write: %s", strerror (errno));
    buf = (const char *) buf + r;
    n -= r;
    offset += r;
  }
}

static void
apply_frame (const struct envelope *env, uint64_t disk_bytes,
             ZSTD_DCtx *dctx)
{
  extents list = { 0 };
  const unsigned char *data;
  const char *wrong = frame_unpack (env, frame, disk_bytes, dctx, body,
                                    &list, &data);

  if (wrong)
    die ("frame %" PRIu64 ": %s", env->index, wrong);
  for (size_t i = 0; i < list.len; i++) {
    const struct extent *e = &list.ptr[i];

    if (out == -1)
      printf ("%" PRIu64 " %" PRIu64 " %s\n", e->offset, e->length,
              e->kind == EXTENT_ZERO ? "zero" : "data");
    else if (e->kind == EXTENT_DATA)
      write_all (data, e->length, e->offset);
    else if (fallocate (out, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        e->offset, e->length) == -1)
      die ("punch hole: %s", strerror (errno));
    if (e->kind == EXTENT_DATA)
      data += e->length;
  }
  extents_reset (&list);
}

int
main (int argc, char *argv[])
{
  bool only_extents = argc > 1 && strcmp (argv[1], "-e") == 0;
  struct session_record record;
  ZSTD_DCtx *dctx = ZSTD_createDCtx ();
  struct envelope env;
  struct stat st;
  const char *wrong;
  json_t *json;

  if (argc != 3)
    die ("usage: wire-apply WIRE OUT, or wire-apply -e WIRE");
  wire = open (argv[only_extents ? 2 : 1], O_RDONLY);
  frame = malloc (FRAME_MAX_BYTES);
  body = malloc (UNPACKED_MAX_BYTES);
  if (wire == -1 || fstat (wire, &st) == -1 || !frame || !body || !dctx)
    die ("%s: %s", argv[1], strerror (errno));

  read_frame (0, &env);
  json = json_loadb ((char *) frame + ENVELOPE_BYTES, env.packed_bytes, 0,
                     NULL);
  wrong = session_record_decode (json, &record);
  if (wrong)
    die ("frame 0: %s", wrong);
  if ((uint64_t) st.st_size != (record.frames + 1) * SLOT_BYTES)
    die ("%" PRIu64 " frames do not fit the size of the wire export",
         record.frames);

  if (!only_extents) {
    out = open (argv[2], O_RDWR | O_CREAT, 0644);
    if (out == -1 || fstat (out, &st) == -1)
      die ("%s: %s", argv[2], strerror (errno));
    if (st.st_size == 0 && ftruncate (out, record.size) == -1)
      die ("%s: %s", argv[2], strerror (errno));
    if (st.st_size != 0 && (uint64_t) st.st_size != record.size)
      die ("%s: not the size of the disk", argv[2]);
    json_dumpf (json, stdout, JSON_INDENT (2));
    putchar ('\n');
  }
  for (uint64_t k = 1; k <= record.frames; k++) {
    uint64_t session = env.session;

    read_frame (k, &env);
    if (env.session != session)
      die ("frame %" PRIu64 ": of another session", k);
    apply_frame (&env, record.size, dctx);
  }

  session_record_reset (&record);
  json_decref (json);
  ZSTD_freeDCtx (dctx);
  free (frame);
  free (body);
  return 0;
}
