/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A client of the wire export that asks what the usual movers do not.
 *
 *   random URI WIRE SEED   read ranges at random, many of them twice, and
 *                          compare with a dump of the same export
 *   status URI             block status of the largest counts; every answer
 *                          must stay within what was asked, and within the
 *                          export
 */
#include <config.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libnbd.h>

#include "frame.h"

#define READ_MAX (4 << 20)

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
check (struct nbd_handle *nbd, int wire, uint64_t offset, size_t n)
{
  static unsigned char got[READ_MAX], want[READ_MAX];

  if (nbd_pread (nbd, got, n, offset, 0) == -1)
    die ("%s", nbd_get_error ());
  if (pread (wire, want, n, offset) != (ssize_t) n)
    die ("the dump is short");
  if (memcmp (got, want, n) != 0)
    die ("other bytes in %zu at %" PRIu64, n, offset);
}

static void
read_at_random (struct nbd_handle *nbd, const char *file, unsigned seed)
{
  uint64_t size = nbd_get_size (nbd), slots = size / SLOT_BYTES;
  int wire = open (file, O_RDONLY);

  if (wire == -1)
    die ("%s: %m", file);
  srandom (seed);
  for (unsigned i = 0; i < 400; i++) {
    uint64_t offset = random () % slots * SLOT_BYTES;
    size_t n = 1 + random () % (random () % 4 == 0 ? READ_MAX : 70000);

    /* Mostly inside of frames, sometimes over the edge of a slot. */
    if (random () % 8 == 0)
      offset += SLOT_BYTES - random () % 4096;
    else
      offset += random () % (random () % 4 ? 4096 : READ_MAX);
    if (offset >= size)
      continue;
    if (n > size - offset)
      n = size - offset;
    check (nbd, wire, offset, n);
    if (random () % 3 == 0)
      check (nbd, wire, offset, n);
  }
}

struct answer {
  uint64_t total;
  bool called;
};

static int
got_status (void *opaque, const char *name, uint64_t offset,
            uint32_t *entries, size_t nr_entries, int *error)
{
  struct answer *a = opaque;

  a->called = true;
  for (size_t i = 0; i < nr_entries; i += 2)
    a->total += entries[i];
  return 0;
}

static void
ask_status (struct nbd_handle *nbd, uint64_t offset, uint64_t count)
{
  struct answer a = { 0 };

  if (count > (uint64_t) nbd_get_size (nbd) - offset)
    count = nbd_get_size (nbd) - offset;
  if (nbd_block_status (nbd, count, offset,
                        (nbd_extent_callback) { .callback = got_status,
                                                .user_data = &a }, 0) == -1)
    die ("%s", nbd_get_error ());
  if (!a.called || a.total == 0 || a.total > count)
    die ("%" PRIu64 " bytes of status for %" PRIu64 " at %" PRIu64,
         a.total, count, offset);
}

int
main (int argc, char *argv[])
{
  struct nbd_handle *nbd = nbd_create ();

  if (argc < 3 || !nbd)
    die ("usage: random URI WIRE SEED, or status URI");
  nbd_set_strict_mode (nbd, 0);
  nbd_add_meta_context (nbd, "base:allocation");
  if (nbd_connect_uri (nbd, argv[2]) == -1)
    die ("%s", nbd_get_error ());

  if (strcmp (argv[1], "random") == 0 && argc == 5)
    read_at_random (nbd, argv[3], atoi (argv[4]));
  else
    for (uint64_t offset = 0; offset < (uint64_t) nbd_get_size (nbd);
         offset += SLOT_BYTES) {
      ask_status (nbd, offset, UINT32_MAX);
      ask_status (nbd, offset + 512, UINT32_MAX & ~511u);
      ask_status (nbd, offset + SLOT_BYTES - 1, 1);
      ask_status (nbd, offset + 1, 1);
    }
  nbd_close (nbd);
  return 0;
}
