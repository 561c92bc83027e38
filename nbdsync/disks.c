/* SPDX-License-Identifier: BSD-3-Clause
 *
 * "nbdsync disks": the disks of a machine and their bitmaps.
 */
#include <config.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bitmaps.h"
#include "cleanup.h"
#include "commands.h"
#include "disks.h"
#include "json.h"
#include "log.h"
#include "sync-options.h"

static json_t *
bitmap_json (const struct bitmap *b)
{
  return json_pack ("{s:s, s:I, s:I, s:b, s:b, s:b, s:b}",
                    "name", b->name, "granularity",
                    (json_int_t) b->granularity,
                    "dirty_bytes", (json_int_t) b->count,
                    "recording", b->recording, "busy", b->busy,
                    "persistent", b->persistent,
                    "inconsistent", b->inconsistent);
}

static json_t *
bitmaps_json (const bitmaps *all)
{
  json_t *list = json_array ();

  for (size_t i = 0; i < all->len; i++)
    json_array_append_new (list, bitmap_json (&all->ptr[i]));
  return list;
}

static json_t *
disk_json (const struct disk *d)
{
  json_t *backing = json_array ();

  for (size_t i = 0; i < d->backing.len; i++) {
    const struct layer *l = &d->backing.ptr[i];

    json_array_append_new (
      backing, json_pack ("{s:s, s:s, s:s*, s:I, s:o}", "node", l->node,
                          "driver", l->driver, "file", l->file,
                          "size", (json_int_t) l->size,
                          "bitmaps", bitmaps_json (&l->bitmaps)));
  }
  return json_pack ("{s:s, s:s, s:s, s:s*, s:I, s:I, s:b, s:b, s:s*, s:o,"
                    " s:o}",
                    "device", d->device, "node", d->node,
                    "driver", d->driver, "file", d->file,
                    "size", (json_int_t) d->size,
                    "allocated", (json_int_t) d->allocated,
                    "read_only", d->read_only, "iothread", d->iothread,
                    "unsuitable", d->unsuitable,
                    "bitmaps", bitmaps_json (&d->bitmaps),
                    "backing", backing);
}

/* What a bitmap of ours is for; nothing about others. */
static void
show_chain (const struct bitmap *b)
{
  char chain8[CHAIN8_CHARS + 1];
  uint64_t generation, pass;

  if (!bitmap_parse_name (b->name, chain8, &generation, &pass))
    return;
  printf (" (chain %s, since generation %" PRIu64, chain8, generation);
  if (pass > 0)
    printf (", pass %" PRIu64, pass);
  putchar (')');
}

static void
show_bitmaps (const bitmaps *all)
{
  for (size_t i = 0; i < all->len; i++) {
    const struct bitmap *b = &all->ptr[i];
    char size[SIZE_TEXT_MAX];

    printf ("    bitmap %s", b->name);
    show_chain (b);
    printf (": %s dirty%s%s%s\n", size_text (b->count, size),
            b->recording ? "" : ", disabled",
            b->inconsistent ? ", inconsistent" : "",
            b->persistent ? "" : ", gone when QEMU ends");
  }
}

static void
show (const disks *all)
{
  printf ("%-16s %-20s %-6s %10s  %s\n", "DEVICE", "NODE", "FORMAT", "SIZE",
          "FILE");
  for (size_t i = 0; i < all->len; i++) {
    const struct disk *d = &all->ptr[i];
    char size[SIZE_TEXT_MAX];

    printf ("%-16s %-20s %-6s %10s  %s%s\n", *d->device ? d->device : "-",
            *d->node ? d->node : "-", d->driver ? d->driver : "-",
            size_text (d->size, size), d->file ? d->file : "-",
            d->iothread ? "  (iothread)" : "");
    if (d->unsuitable)
      printf ("    cannot be replicated: %s\n", d->unsuitable);
    show_bitmaps (&d->bitmaps);
    for (size_t j = 0; j < d->backing.len; j++) {
      const struct layer *l = &d->backing.ptr[j];

      printf ("  on %s  %s\n", l->node, l->file ? l->file : "-");
      show_bitmaps (&l->bitmaps);
    }
  }
}

static int
list (const char *source, disks *ret)
{
  struct qmp *qmp = qmp_connect (source, QMP_TIMEOUT_MS);
  int r = qmp ? disks_list (qmp, ret) : -1;

  qmp_close (qmp);
  return r;
}

int
command_disks (int argc, char *argv[])
{
  static const struct option options[] = {
    { "json", no_argument, NULL, 'j' },
    COMMON_OPTIONS,
    { 0 },
  };
  disks all = { 0 };
  bool json = false;
  int c, r;

  while ((c = getopt_long (argc, argv, "", options, NULL)) != -1)
    if (c == 'j')
      json = true;
    else
      return common_option (c);
  if (optind + 1 != argc || strncmp (argv[optind], "qmp:", 4) != 0) {
    log_error ("disks: it takes one argument, qmp:SOCKET");
    return EXIT_USAGE;
  }
  r = list (argv[optind] + 4, &all);
  if (r == 0 && json) {
    json_t *array = json_array ();
    for (size_t i = 0; i < all.len; i++)
      json_array_append_new (array, disk_json (&all.ptr[i]));
    json_dumpf (array, stdout, JSON_INDENT (2));
    putchar ('\n');
    json_decref (array);
  }
  else if (r == 0)
    show (&all);
  disks_free (&all);
  return r == 0 && fflush (stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
