/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions of qmp-client on a command line, for tests.  Commands and
 * their arguments stand in the table at the end; ADDRESS is a monitor, DISK
 * a device or node.  Exit 0, or 1 with errno's name on standard output.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bitmaps.h"
#include "cleanup.h"
#include "daemon.h"
#include "disks.h"
#include "flush.h"
#include "json.h"
#include "log.h"
#include "map-file.h"
#include "precopy.h"
#include "reader.h"
#include "spool.h"

#define TOOL_TAG "00000000"      /* chain8 of what has no chain */

static struct qmp *qmp;
static disks list;

static void
sink (enum log_level level, const char *message)
{
  if (level == LOG_LEVEL_ERROR || getenv ("QMP_TOOL_DEBUG"))
    fprintf (stderr, "qmp-tool: %s\n", message);
}

static int
connect_to (const char *address)
{
  const char *timeout = getenv ("QMP_TOOL_TIMEOUT_MS");

  qmp = qmp_connect (address, timeout ? atoi (timeout) : QMP_TIMEOUT_MS);
  return qmp ? 0 : -1;
}

/* Connect, list the disks and find one. */
static struct disk *
find (const char *address, const char *name)
{
  struct disk *d;

  if (connect_to (address) == -1 || disks_list (qmp, &list) == -1)
    return NULL;
  d = disks_find (&list, name);
  if (!d) {
    fprintf (stderr, "qmp-tool: no disk %s\n", name);
    errno = ENOENT;
  }
  return d;
}

static const char *
none (const char *arg)
{
  return strcmp (arg, "-") == 0 ? NULL : arg;
}

static int
do_execute (char **a)
{
  CLEANUP_JSON json_t *ret = NULL;
  CLEANUP_FREE char *text = NULL;

  if (connect_to (a[0]) == -1)
    return -1;
  for (char **command = a + 1; *command; command++) {
    if (qmp_execute (qmp, *command, NULL, &ret) == -1)
      return -1;
    text = json_dumps (ret, JSON_ENCODE_ANY | JSON_COMPACT);
    puts (text);
    cleanup_free (&text);
    cleanup_json (&ret);
    text = NULL;
    ret = NULL;
  }
  return 0;
}

/* ADDRESS MS COMMAND: with a deadline of its own. */
static int
do_try (char **a)
{
  return connect_to (a[0]) == -1 ? -1
    : qmp_try (qmp, a[2], NULL, atoi (a[1]), NULL, NULL);
}

static bool
named (const json_t *event, void *opaque)
{
  const char *name = json_get_string (event, "event");

  return name && strcmp (name, opaque) == 0;
}

static int
do_event (char **a)
{
  json_t *event;

  if (connect_to (a[0]) == -1 ||
      (a[3] && qmp_execute (qmp, a[3], NULL, NULL) == -1))
    return -1;
  event = qmp_wait_event (qmp, named, a[1], atoi (a[2]));
  json_decref (event);
  return event ? 0 : -1;
}

static int
do_list (char **a)
{
  if (connect_to (a[0]) == -1 || disks_list (qmp, &list) == -1)
    return -1;
  for (size_t i = 0; i < list.len; i++) {
    const struct disk *d = &list.ptr[i];

    printf ("name=%s device=%s node=%s driver=%s file=%s file_driver=%s "
            "size=%" PRIu64 " cluster=%" PRIu64 "%s%s%s%s%s%s",
            disk_default_name (d), d->device, d->node, d->driver,
            d->file ? d->file : "-", d->file_driver ? d->file_driver : "-",
            d->size, d->cluster_size, d->read_only ? " ro" : "",
            d->encrypted ? " encrypted" : "",
            d->backing.len > 0 ? " backing" : "",
            d->iothread ? " iothread" : "",
            d->external_data ? " external" : "",
            disk_can_persist (d) ? " persist" : "");
    for (size_t j = 0; j < d->bitmaps.len; j++) {
      const struct bitmap *b = &d->bitmaps.ptr[j];

      printf (" bitmap=%s,%" PRIu64 ",%" PRIu64 "%s%s%s%s", b->name,
              b->granularity, b->count, b->recording ? ",recording" : "",
              b->busy ? ",busy" : "", b->persistent ? ",persistent" : "",
              b->inconsistent ? ",inconsistent" : "");
    }
    printf (" unsuitable=%s spool_only=%s\n",
            d->unsuitable ? d->unsuitable : "-",
            d->spool_only ? d->spool_only : "-");
  }
  return 0;
}

static int
do_bitmap_add (char **a)
{
  struct disk *d = find (a[0], a[1]);

  return d ? bitmap_add (qmp, d, a[2], atoi (a[3])) : -1;
}

static int
do_bitmap_remove (char **a)
{
  struct disk *d = find (a[0], a[1]);

  return d ? bitmap_remove (qmp, d->node, a[2]) : -1;
}

static int
do_bitmap_merge (char **a)
{
  struct disk *d = find (a[0], a[1]);

  return d ? bitmap_merge (qmp, d->node, a[2], d->node, a[3]) : -1;
}

static int
do_spool_bytes (char **a)
{
  struct disk *d = find (a[0], a[1]);
  uint64_t bytes;

  if (!d || bitmap_spool_bytes (qmp, d, a[2], "0123abcd", &bytes) == -1)
    return -1;
  printf ("%" PRIu64 "\n", bytes);
  return 0;
}

static int
do_names (char **a)
{
  char name[BITMAP_NAME_MAX], chain8[CHAIN8_CHARS + 1];
  uint64_t generation, pass;

  bitmap_name (a[0], strtoull (a[1], NULL, 10), strtoull (a[2], NULL, 10),
               name);
  puts (name);
  for (char **p = a + 3; *p; p++)
    if (bitmap_parse_name (*p, chain8, &generation, &pass))
      printf ("%s %" PRIu64 " %" PRIu64 "\n", chain8, generation, pass);
    else
      printf ("%s: not ours\n", *p);
  return 0;
}

static int
do_granularity (char **a)
{
  printf ("%" PRIu64 "\n",
          bitmap_default_granularity (strtoull (a[0], NULL, 10)));
  return 0;
}

static int
do_flush (char **a)
{
  struct disk *d = find (a[0], a[1]);
  unsigned ms;

  if (!d || flush_disk (qmp, d, TOOL_TAG, &ms) == -1)
    return -1;
  printf ("%u ms\n", ms);
  return 0;
}

/* ADDRESS LIMIT TIMEOUT-MS GRANULARITY then for each disk
 * DISK OLD NEW PATH TAG; '-' is none.
 */
static int
do_spool (char **a)
{
  struct spool_disk d[8] = { { 0 } };
  unsigned ms;
  size_t n = 0;

  if (connect_to (a[0]) == -1 || disks_list (qmp, &list) == -1)
    return -1;
  for (char **p = a + 4; *p && n < 8; p += 5, n++) {
    d[n] = (struct spool_disk) {
      .disk = disks_find (&list, p[0]), .old_bitmap = none (p[1]),
      .new_bitmap = none (p[2]), .path = p[3], .tag = p[4],
      .granularity = strtoull (a[3], NULL, 10)
    };
    if (!d[n].disk) {
      errno = ENOENT;
      return -1;
    }
  }
  if (spool_take (qmp, d, n, strtoull (a[1], NULL, 10), atoi (a[2]),
                  NULL, &ms)
      == -1)
    return -1;
  for (size_t i = 0; i < n; i++)
    printf ("%s copied=%" PRIu64 "\n", disk_default_name (d[i].disk),
            d[i].copied);
  fprintf (stderr, "held for %u ms\n", ms);
  return 0;
}

static int
do_settle (char **a)
{
  if (connect_to (a[0]) == -1)
    return -1;
  return spool_settle (qmp, a[1]);
}

static int
do_map (char **a)
{
  struct disk *d = find (a[0], a[1]);

  return d ? map_take (qmp, d->node, a[2], d->size,
                       strtoull (a[3], NULL, 10), a[4], a[5])
    : -1;
}

/* Serve until end of input. */
static int
serve (const struct reader_spec *spec, const char *socket)
{
  struct process p;

  if (reader_start (&p, spec, socket) == -1)
    return -1;
  puts ("ready");
  fflush (stdout);
  while (getchar () != EOF)
    ;
  reader_stop (&p, socket);
  return 0;
}

/* FILE DRIVER running|plain BITMAP SOCKET */
static int
do_reader (char **a)
{
  return serve (&(struct reader_spec) {
      .filename = a[0], .driver = a[1],
      .running = strcmp (a[2], "running") == 0,
      .bitmap = none (a[3]), .allocation_depth = true }, a[4]);
}

/* ADDRESS DISK SOCKET: as a precopy reads it. */
static int
do_read_disk (char **a)
{
  struct disk *d = find (a[0], a[1]);

  if (!d)
    return -1;
  qmp_close (qmp);              /* there is one monitor only */
  qmp = NULL;
  return serve (&(struct reader_spec) {
      .filename = d->file, .driver = d->driver, .running = true,
      .backing = &d->backing, .allocation_depth = true }, a[2]);
}

/* ADDRESS DISK: begin, print "begun", wait for a line, check. */
static int
do_precopy (char **a)
{
  struct disk *d = find (a[0], a[1]);
  struct precopy_state state = { 0 };
  int r;

  if (!d || flush_disk (qmp, d, TOOL_TAG, NULL) == -1 ||
      precopy_begin (qmp, d, &state) == -1)
    return -1;
  puts ("begun");
  fflush (stdout);
  while ((r = getchar ()) != '\n' && r != EOF)
    ;
  r = flush_disk (qmp, d, TOOL_TAG, NULL);
  if (r == 0)
    r = precopy_check (qmp, d, &state);
  precopy_state_reset (&state);
  return r;
}

/* add|remove BITMAP FILE...: on images that nobody has open. */
static int
do_stopped (char **a)
{
  struct daemon_image images[8] = { { 0 } };
  struct daemon d;
  size_t n = 0;
  int r;

  static char nodes[8][16];
  for (char **p = a + 2; *p && n < 8; p++, n++) {
    snprintf (nodes[n], sizeof nodes[n], "image%zu", n);
    images[n] = (struct daemon_image) { .file = *p, .node = nodes[n] };
  }
  if (daemon_start (&d, images, n) == -1)
    return -1;
  r = disks_list (d.qmp, &list);
  for (size_t i = 0; i < list.len && r == 0; i++)
    r = strcmp (a[0], "add") == 0
      ? bitmap_add (d.qmp, &list.ptr[i], a[1], 4096)
      : bitmap_remove (d.qmp, list.ptr[i].node, a[1]);
  return daemon_quit (&d) == -1 ? -1 : r;
}

static const struct command {
  const char *name;
  int min_args;
  int (*run) (char **args);
} commands[] = {
  { "execute", 2, do_execute },         /* ADDRESS COMMAND... */
  { "try", 3, do_try },
  { "event", 3, do_event },             /* ADDRESS EVENT MS [COMMAND] */
  { "list", 1, do_list },               /* ADDRESS */
  { "bitmap-add", 4, do_bitmap_add },   /* ADDRESS DISK NAME GRANULARITY */
  { "bitmap-remove", 3, do_bitmap_remove }, /* ADDRESS DISK NAME */
  { "bitmap-merge", 4, do_bitmap_merge }, /* ADDRESS DISK TO FROM */
  { "spool-bytes", 3, do_spool_bytes }, /* ADDRESS DISK NAME */
  { "names", 3, do_names },             /* CHAIN GENERATION PASS [NAME...] */
  { "granularity", 1, do_granularity }, /* BYTES */
  { "flush", 2, do_flush },             /* ADDRESS DISK */
  { "spool", 9, do_spool },
  { "settle", 2, do_settle },           /* ADDRESS TAG */
  { "map", 6, do_map },         /* ADDRESS DISK BITMAP GRANULARITY PATH TAG */
  { "reader", 5, do_reader },
  { "read-disk", 3, do_read_disk },
  { "precopy", 2, do_precopy },
  { "stopped", 3, do_stopped },
};

int
main (int argc, char *argv[])
{
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
    const struct command *c = &commands[i];

    if (argc < 2 || strcmp (argv[1], c->name) != 0)
      continue;
    if (argc - 2 < c->min_args)
      break;
    log_set_sink (sink);
    int r = c->run (argv + 2);
    int saved = errno;

    disks_free (&list);
    qmp_close (qmp);
    if (r == -1)
      puts (strerrorname_np (saved) ? strerrorname_np (saved) : "?");
    return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  fprintf (stderr, "usage: qmp-tool COMMAND ARGS...; see the source\n");
  return 2;
}
