/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The map over NBD.  A connection of our own, since the nbd plugin offers
 * nothing but base:allocation: block status of the dirty bitmap, of the
 * allocation depth, or of both; a range is in the map where all of those
 * that were asked for say so.  The contexts of one reply need not end at
 * the same place, nor where we asked, so each reply is used as far as all
 * of them reach.
 *
 * A context that the server does not negotiate is an error, never "all
 * clean" or "all dirty".
 *
 * No state, no locks.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <libnbd.h>

#include "cleanup.h"
#include "log.h"
#include "map.h"

#define QUERY_BYTES (UINT64_C (1) << 30)
#define BITMAP_CONTEXT "qemu:dirty-bitmap:"
#define DEPTH_CONTEXT "qemu:allocation-depth"

#define CLEANUP_NBD __attribute__ ((cleanup (cleanup_nbd)))

static void
cleanup_nbd (struct nbd_handle **nbd)
{
  nbd_close (*nbd);
}

struct block {
  uint32_t length;
  bool wanted;
};
DEFINE_VECTOR (blocks, struct block)

/* One meta context, and what the reply in hand says of it. */
struct context {
  char *name;
  unsigned layers;              /* of the allocation depth; 0: a bitmap */
  blocks reply;
};

struct reader {
  char *server;                 /* for messages: where, and which export */
  struct context contexts[2];
  size_t nr_contexts;
  uint64_t start, length;       /* of the run that may still grow */
};

static void
reader_reset (struct reader *r)
{
  for (size_t i = 0; i < r->nr_contexts; i++) {
    free (r->contexts[i].name);
    blocks_reset (&r->contexts[i].reply);
  }
  free (r->server);
}

static int
add_context (struct nbd_handle *nbd, struct reader *r, const char *prefix,
             const char *name, unsigned layers)
{
  struct context *c = &r->contexts[r->nr_contexts];

  if (asprintf (&c->name, "%s%s", prefix, name) == -1) {
    log_error ("%s: out of memory", r->server);
    return -1;
  }
  r->nr_contexts++;
  c->layers = layers;
  if (nbd_add_meta_context (nbd, c->name) == -1) {
    log_error ("%s: %s: %s", r->server, c->name, nbd_get_error ());
    return -1;
  }
  return 0;
}

static int
name_server (const struct map_source *s, struct reader *r)
{
  int n;

  if (s->uri)
    n = asprintf (&r->server, "map of %s", s->uri);
  else
    n = asprintf (&r->server, "map of export \"%s\" at %s%s%s",
                  s->export ? s->export : "",
                  s->socket ? s->socket : s->host,
                  s->socket ? "" : ":",
                  s->socket ? "" : s->port ? s->port : "10809");
  if (n == -1) {
    r->server = NULL;
    log_error ("map: out of memory");
    return -1;
  }
  return 0;
}

static int
connect_server (struct nbd_handle *nbd, const struct map_source *s)
{
  if (s->uri)
    return nbd_connect_uri (nbd, s->uri);
  if (s->export && nbd_set_export_name (nbd, s->export) == -1)
    return -1;
  if (s->socket)
    return nbd_connect_unix (nbd, s->socket);
  return nbd_connect_tcp (nbd, s->host, s->port ? s->port : "10809");
}

static int
got_blocks (void *opaque, const char *name, uint64_t offset,
            uint32_t *entries, size_t nr_entries, int *error)
{
  struct reader *r = opaque;

  for (size_t i = 0; i < r->nr_contexts; i++) {
    struct context *c = &r->contexts[i];

    if (strcmp (c->name, name) != 0)
      continue;
    c->reply.len = 0;
    for (size_t j = 0; j + 1 < nr_entries; j += 2) {
      uint32_t flags = entries[j + 1];
      struct block b = { .length = entries[j] };

      b.wanted = c->layers ? flags >= 1 && flags <= c->layers
                           : (flags & 1) != 0;
      if (blocks_append (&c->reply, b) == -1) {
        *error = ENOMEM;
        return -1;
      }
    }
  }
  return 0;
}

/* End the run that has stopped growing. */
static int
flush_run (struct reader *r, struct runs *ret)
{
  if (r->length > 0 && runs_append (ret, r->start, r->length, 0) == -1) {
    log_error ("%s: out of memory", r->server);
    return -1;
  }
  r->length = 0;
  return 0;
}

/* Append what the reply says, up to 'count' bytes.  Returns how many bytes
 * all contexts tell of; 0 if one of them tells nothing; -1 with a message.
 */
static int64_t
use_reply (struct reader *r, uint64_t offset, uint64_t count,
           struct runs *ret)
{
  size_t at[2] = { 0, 0 };
  uint64_t left[2] = { 0, 0 };
  uint64_t done = 0;

  while (done < count) {
    uint64_t n = count - done;
    bool wanted = true;

    for (size_t i = 0; i < r->nr_contexts; i++) {
      const blocks *reply = &r->contexts[i].reply;

      while (left[i] == 0) {
        if (at[i] == reply->len)
          return done;
        left[i] = reply->ptr[at[i]++].length;
      }
      wanted &= reply->ptr[at[i] - 1].wanted;
      if (n > left[i])
        n = left[i];
    }
    for (size_t i = 0; i < r->nr_contexts; i++)
      left[i] -= n;

    if (!wanted) {
      if (flush_run (r, ret) == -1)
        return -1;
    }
    else {
      if (r->length == 0)
        r->start = offset + done;
      r->length += n;
    }
    done += n;
  }
  return done;
}

static int
read_blocks (struct nbd_handle *nbd, struct reader *r, uint64_t size,
             struct runs *ret)
{
  for (uint64_t offset = 0; offset < size; ) {
    uint64_t count = size - offset < QUERY_BYTES ? size - offset : QUERY_BYTES;
    int64_t done;

    for (size_t i = 0; i < r->nr_contexts; i++)
      r->contexts[i].reply.len = 0;
    if (nbd_block_status (nbd, count, offset,
                          (nbd_extent_callback) { .callback = got_blocks,
                                                  .user_data = r },
                          0) == -1) {
      log_error ("%s: block status at %" PRIu64 ": %s", r->server, offset,
                 nbd_get_error ());
      return -1;
    }
    done = use_reply (r, offset, count, ret);
    if (done == -1)
      return -1;
    if (done == 0) {
      log_error ("%s: no block status at %" PRIu64, r->server, offset);
      return -1;
    }
    offset += done;
  }
  return flush_run (r, ret);
}

static int
read_map (const struct map_source *source, struct reader *r,
          struct runs *ret, uint64_t *ret_size)
{
  CLEANUP_NBD struct nbd_handle *nbd = nbd_create ();
  int64_t size;

  if (!nbd) {
    log_error ("libnbd: %s", nbd_get_error ());
    return -1;
  }
  if (name_server (source, r) == -1 ||
      (source->bitmap &&
       add_context (nbd, r, BITMAP_CONTEXT, source->bitmap, 0) == -1) ||
      (source->layers &&
       add_context (nbd, r, DEPTH_CONTEXT, "", source->layers) == -1))
    return -1;
  if (connect_server (nbd, source) == -1) {
    log_error ("%s: %s", r->server, nbd_get_error ());
    return -1;
  }
  for (size_t i = 0; i < r->nr_contexts; i++)
    if (nbd_can_meta_context (nbd, r->contexts[i].name) != 1) {
      CLEANUP_FREE char *export = nbd_get_export_name (nbd);

      log_error ("%s: the server has no context %s for export \"%s\"",
                 r->server, r->contexts[i].name, export ? export : "?");
      return -1;
    }
  size = nbd_get_size (nbd);
  if (size == -1) {
    log_error ("%s: %s", r->server, nbd_get_error ());
    return -1;
  }
  *ret_size = size;
  return read_blocks (nbd, r, size, ret);
}

int
map_read (const struct map_source *source, struct runs *ret,
          uint64_t *ret_size)
{
  struct reader r = { 0 };
  int result = read_map (source, &r, ret, ret_size);

  reader_reset (&r);
  return result;
}
