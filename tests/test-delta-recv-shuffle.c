/* SPDX-License-Identifier: BSD-3-Clause
 *
 * test-delta-recv-shuffle SEED WIRE URI [OPTION...]: sends a wire image as no
 * sane mover would.  Every frame is cut at random borders; the pieces are
 * shuffled over all frames and spread over 4 connections that send at once;
 * some are sent twice or overlap; gaps are zeroed now and then.  Options:
 *
 *   drop           pieces that are all zeroes are not sent
 *   envelope-last  each frame's first bytes are sent after all the rest
 *   record-last    frame 0 is sent last
 *   one            over one connection
 *
 * Then all connections flush at once, and flush again.
 */
#include <config.h>

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libnbd.h>

#include "frame.h"

#define CONNECTIONS 4
#define PIECE_MAX_BYTES (512 << 10)

struct piece {
  uint64_t offset;
  uint32_t length;
  uint32_t key;                 /* order */
  unsigned connection;
  bool zero;
};
DEFINE_VECTOR (pieces, struct piece)

static const char *uri;
static int wire;
static bool drop, envelope_last, record_last, one;
static pieces all;
static pthread_barrier_t barrier;

static void __attribute__ ((noreturn))
die (const char *what)
{
  fprintf (stderr, "%s: %s\n", what, strerror (errno));
  exit (1);
}

static uint32_t
random_below (uint32_t n)
{
  return (((uint64_t) random () << 16) ^ random ()) % n;
}

static void
read_wire (void *buf, size_t n, uint64_t offset)
{
  if (pread (wire, buf, n, offset) != (ssize_t) n)
    die ("wire");
}

static void
add (uint64_t offset, uint32_t length, bool zero)
{
  struct piece p = { .offset = offset, .length = length, .zero = zero,
                     .connection = one ? 0 : random_below (CONNECTIONS),
                     .key = random_below (1 << 20) };

  if (envelope_last && offset % SLOT_BYTES < ENVELOPE_BYTES)
    p.key |= 1 << 20;
  if (record_last && offset < SLOT_BYTES)
    p.key |= 1 << 21;
  if (pieces_append (&all, p) == -1)
    die ("pieces");
}

/* Lengths from a few bytes to hundreds of KiB, each size as likely. */
static uint32_t
piece_length (uint64_t left)
{
  uint32_t n = 1 + random_below (1 << (4 + random_below (16)));

  return n < left ? n : left;
}

static bool
all_zero (uint64_t offset, uint32_t n)
{
  static unsigned char buf[PIECE_MAX_BYTES];

  read_wire (buf, n, offset);
  for (uint32_t i = 0; i < n; i++)
    if (buf[i] != 0)
      return false;
  return true;
}

static void
cut_frame (uint64_t slot)
{
  uint64_t at = 0, packed, len;

  read_wire (&packed, sizeof packed, slot * SLOT_BYTES + 32);
  len = ENVELOPE_BYTES + le64toh (packed);
  while (at < len) {
    uint32_t n = piece_length (len - at);
    uint64_t offset = slot * SLOT_BYTES + at;
    bool zero = all_zero (offset, n);

    if (!zero || !drop)
      add (offset, n, zero && random_below (2));
    if (random_below (10) == 0)
      add (offset, n, false);   /* twice */
    at += n;
  }
  /* An overlap, and what lies behind the frame. */
  at = random_below (len);
  add (slot * SLOT_BYTES + at, piece_length (len - at), false);
  if (!drop)
    add (slot * SLOT_BYTES + len, SLOT_BYTES - len, true);
  if (random_below (4) == 0)
    add (slot * SLOT_BYTES + len, 4096, false);
}

static int
by_key (const void *a, const void *b)
{
  const struct piece *p = a, *q = b;

  return p->key < q->key ? -1 : p->key > q->key;
}

static void *
client (void *opaque)
{
  unsigned self = (uintptr_t) opaque;
  struct nbd_handle *nbd = nbd_create ();
  unsigned char *buf = malloc (PIECE_MAX_BYTES);

  if (!nbd || !buf || nbd_connect_uri (nbd, uri) == -1)
    goto err;
  pthread_barrier_wait (&barrier);
  for (size_t i = 0; i < all.len; i++) {
    struct piece p = all.ptr[i];
    int r;

    /* All the rest before any envelope, and before the record. */
    if (i > 0 && p.key >> 20 != all.ptr[i - 1].key >> 20)
      pthread_barrier_wait (&barrier);
    if (p.connection != self)
      continue;
    if (p.zero)
      r = nbd_zero (nbd, p.length, p.offset, 0);
    else {
      read_wire (buf, p.length, p.offset);
      r = nbd_pwrite (nbd, buf, p.length, p.offset, 0);
    }
    if (r == -1)
      goto err;
  }
  pthread_barrier_wait (&barrier);
  if (nbd_flush (nbd, 0) == -1 || nbd_flush (nbd, 0) == -1)
    goto err;
  nbd_shutdown (nbd, 0);
  nbd_close (nbd);
  free (buf);
  return NULL;

 err:
  fprintf (stderr, "connection %u: %s\n", self, nbd_get_error ());
  exit (1);
}

int
main (int argc, char *argv[])
{
  pthread_t threads[CONNECTIONS];
  unsigned n;
  struct stat st;

  srandom (atoi (argv[1]));
  wire = open (argv[2], O_RDONLY);
  if (wire == -1 || fstat (wire, &st) == -1)
    die (argv[2]);
  uri = argv[3];
  for (int i = 4; i < argc; i++) {
    drop |= strcmp (argv[i], "drop") == 0;
    envelope_last |= strcmp (argv[i], "envelope-last") == 0;
    record_last |= strcmp (argv[i], "record-last") == 0;
    one |= strcmp (argv[i], "one") == 0;
  }
  for (uint64_t slot = 0; slot < st.st_size / SLOT_BYTES; slot++)
    cut_frame (slot);
  qsort (all.ptr, all.len, sizeof all.ptr[0], by_key);

  n = one ? 1 : CONNECTIONS;
  pthread_barrier_init (&barrier, NULL, n);
  for (unsigned i = 0; i < n; i++)
    if (pthread_create (&threads[i], NULL, client, (void *) (uintptr_t) i))
      die ("thread");
  for (unsigned i = 0; i < n; i++)
    pthread_join (threads[i], NULL);
  pieces_reset (&all);
  return 0;
}
