/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The stream of one disk in one pass.  Up to three processes, all children
 * of the agent: a storage daemon that serves the image from outside QEMU,
 * another one for the map file of a precopy pass, and nbdkit.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "json.h"
#include "log.h"
#include "spool.h"
#include "stream.h"

#define STATS_MAX_BYTES 65536
#define STOP_MS 10000

/* The words of a command line, each allocated here. */
static int __attribute__ ((format (printf, 2, 3)))
word (strings *argv, const char *fmt, ...)
{
  va_list ap;
  char *text;
  int r;

  va_start (ap, fmt);
  r = vasprintf (&text, fmt, ap);
  va_end (ap);
  if (r == -1 || strings_append (argv, text) == -1) {
    if (r != -1)
      free (text);
    log_error ("nbdkit: out of memory");
    return -1;
  }
  return 0;
}

static int
command (const struct stream *s, const struct stream_spec *spec,
         const struct stream_options *options, strings *argv)
{
  int r = word (argv, "nbdkit");

  /* One thread a connection: nbdkit up to 1.33 aborts when a client goes
   * while replies of several threads are pending.
   */
  r |= word (argv, "--foreground");
  r |= word (argv, "--threads=1");
  r |= word (argv, "--filter=delta-send");
  if (spec->plan == STREAM_EMPTY) {
    r |= word (argv, "null");
    r |= word (argv, "size=%" PRIu64, spec->size);
    r |= word (argv, "delta-extents=/dev/null");
  }
  else {
    r |= word (argv, "nbd");
    r |= word (argv, "socket=%s", s->image_socket);
    r |= word (argv, "export=%s", READER_EXPORT);
    /* delta-send reads for all clients through one context anyway. */
    r |= word (argv, "shared=true");
  }
  if (spec->plan == STREAM_SPOOL || spec->plan == STREAM_MAP)
    r |= word (argv, "delta-bitmap=%s", MAP_BITMAP);
  if (spec->plan == STREAM_SPOOL)
    r |= word (argv, "delta-local=yes");
  if (spec->plan == STREAM_MAP)
    r |= word (argv, "delta-map-uri=nbd+unix:///%s?socket=%s",
               READER_EXPORT, s->map_socket);
  if (spec->plan == STREAM_LIST)
    r |= word (argv, "delta-extents=%s", spec->list);
  r |= word (argv, "delta-session=%s", s->session);
  r |= word (argv, "delta-stats=%s", s->stats);
  r |= word (argv, "delta-level=%s", options->level);
  if (options->batch)
    r |= word (argv, "delta-batch=%" PRIu64, options->batch);
  if (options->buffer)
    r |= word (argv, "delta-buffer=%" PRIu64, options->buffer);
  return r ? -1 : strings_append (argv, NULL);
}

static int
start_readers (struct stream *s, const struct stream_spec *spec)
{
  struct reader_spec image = {
    .driver = spec->driver, .filename = spec->image,
    .running = spec->running, .backing = spec->backing,
    .bitmap = spec->plan == STREAM_SPOOL ? MAP_BITMAP : NULL,
    .allocation_depth = spec->plan == STREAM_SPOOL,
  };
  struct reader_spec map = {
    .driver = "qcow2", .filename = spec->map, .bitmap = MAP_BITMAP,
  };

  if (spec->plan != STREAM_EMPTY &&
      reader_start (&s->image_reader, &image, s->image_socket) == -1)
    return -1;
  if (spec->plan == STREAM_MAP &&
      reader_start (&s->map_reader, &map, s->map_socket) == -1)
    return -1;
  return 0;
}

int
stream_start (struct stream *s, const char *dir, const char *name,
              const struct stream_spec *spec,
              const struct stream_options *options)
{
  strings argv = { 0 };
  int r = -1;

  if (asprintf (&s->image_socket, "%s/%s.image", dir, name) == -1 ||
      asprintf (&s->map_socket, "%s/%s.map", dir, name) == -1 ||
      asprintf (&s->session, "%s/%s.session", dir, name) == -1 ||
      asprintf (&s->stats, "%s/%s.stats", dir, name) == -1) {
    log_error ("%s: out of memory", name);
    return -1;
  }
  if (json_write_file (-1, s->session, spec->record) == -1 ||
      start_readers (s, spec) == -1)
    return -1;
  if (command (s, spec, options, &argv) == 0)
    r = server_start (&s->server, dir, name,
                      (const char *const *) argv.ptr, NULL, "");
  for (size_t i = 0; i < argv.len; i++)
    free (argv.ptr[i]);
  strings_reset (&argv);
  return r;
}

void
stream_read_stats (const struct stream *s, struct stream_stats *ret)
{
  CLEANUP_JSON json_t *json =
    s->stats ? json_read_file (-1, s->stats, STATS_MAX_BYTES) : NULL;

  memset (ret, 0, sizeof *ret);
  if (!json)
    return;
  json_get_u64 (json, "frames", &ret->frames);
  json_get_u64 (json, "planned_bytes", &ret->planned_bytes);
  json_get_u64 (json, "data_bytes", &ret->data_bytes);
  json_get_u64 (json, "zero_bytes", &ret->zero_bytes);
  json_get_u64 (json, "sent_bytes", &ret->sent_bytes);
  json_get_u64 (json, "frames_sent", &ret->frames_sent);
  ret->level = json_integer_value (json_object_get (json, "level"));
}

/* Free a path, and remove what it names. */
static void
forget_file (char **path)
{
  if (*path)
    unlink (*path);
  free (*path);
  *path = NULL;
}

void
stream_stop (struct stream *s, struct stream_stats *ret)
{
  /* nbdkit writes its last statistics as it ends. */
  server_stop (&s->server, STOP_MS);
  if (ret)
    stream_read_stats (s, ret);
  if (s->image_reader.pid)
    reader_stop (&s->image_reader, s->image_socket);
  if (s->map_reader.pid)
    reader_stop (&s->map_reader, s->map_socket);
  forget_file (&s->image_socket);
  forget_file (&s->map_socket);
  forget_file (&s->session);
  forget_file (&s->stats);
}
