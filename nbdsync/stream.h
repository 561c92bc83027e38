/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The stream of one disk in one pass: a reader that serves the image (and
 * the map), and nbdkit with delta-send over it.
 */
#ifndef NBDSYNC_STREAM_H
#define NBDSYNC_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "process.h"
#include "session-record.h"
#include "reader.h"
#include "server.h"

/* How streams are packed; the same for all of a session. */
struct stream_options {
  const char *level;            /* delta-level */
  uint64_t batch, buffer;       /* bytes; 0: delta-send's default */
};

enum stream_plan {
  STREAM_ALL,                   /* everything that the image has */
  STREAM_MAP,                   /* what 'map' calls dirty */
  STREAM_LIST,                  /* what 'list' has */
  STREAM_SPOOL,                 /* what is dirty and local in the image */
  STREAM_EMPTY,                 /* the session record alone */
};

struct stream_spec {
  enum stream_plan plan;
  const char *driver, *image;   /* format and file; not for STREAM_EMPTY */
  bool running;                 /* a machine may have the image open */
  const backing_layers *backing; /*   and what it builds on */
  const char *map;              /* STREAM_MAP: the map file */
  const char *list;             /* STREAM_LIST: for delta-extents */
  uint64_t size;                /* of the disk */
  const json_t *record;         /* for delta-session */
};

struct stream_stats {
  uint64_t frames, planned_bytes, data_bytes, zero_bytes, sent_bytes;
  uint64_t frames_sent;
  int level;
};

struct stream {
  struct process image_reader, map_reader;
  char *image_socket, *map_socket, *session, *stats; /* paths; owned */
  struct server server;
};

/* Start it; dir is a private directory, name unique in it.  The stream is
 * then at s->server.socket.  -1 with a message; stop it in any case.
 */
int stream_start (struct stream *s, const char *dir, const char *name,
                  const struct stream_spec *spec,
                  const struct stream_options *options);

/* What it has done so far; zeros if it has said nothing yet. */
void stream_read_stats (const struct stream *s, struct stream_stats *ret);

/* End it; *ret (may be NULL) gets the last statistics. */
void stream_stop (struct stream *s, struct stream_stats *ret);

#endif /* NBDSYNC_STREAM_H */
