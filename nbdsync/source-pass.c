/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The passes of a session.
 *
 * A running machine: precopy passes for the disks that are too much for a
 * spool (pass bitmap added, old map carried out, metadata flushed, file
 * read from outside), then one spool of all disks, which is the instant.
 * A stopped machine: one pass that reads the files, and, when it is
 * certain that nothing was written meanwhile, an empty final pass.
 *
 * The bitmap that says what is still to be sent is d->last_bitmap; none of
 * them is removed here: that is for the commit, or the next run.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "cleanup.h"
#include "clock.h"
#include "compose.h"
#include "evidence.h"
#include "fault.h"
#include "flush.h"
#include "json.h"
#include "log.h"
#include "map-file.h"
#include "source.h"
#include "spool.h"

#define OUTGROWN_MAX 5
#define SPOOL_TIMEOUT_MS 3600000 /* at the speed of a local disk */

static char *
scratch_file (const struct source_disk *d, const char *what)
{
  char *path;

  if (asprintf (&path, "%s/%s", d->scratch, what) == -1) {
    log_error ("%s: out of memory", d->name);
    return NULL;
  }
  return path;
}

static void
drop_file (char **path)
{
  if (*path)
    unlink (*path);
  free (*path);
  *path = NULL;
}

static json_t *
record (const struct source *s, const struct source_disk *d, bool final)
{
  json_t *names = json_array ();
  char source[512];

  FOR_EACH_DISK (s, other)
    json_array_append_new (names, json_string (other->name));
  snprintf (source, sizeof source, "%s: %s", s->machine ? s->machine : s->host,
            d->disk->file ? d->disk->file : d->disk->node);
  return json_pack ("{s:s, s:s, s:s*, s:I, s:I, s:s, s:o, s:i, s:b, s:s,"
                    " s:I, s:I}",
                    "session", s->session, "chain", d->chain,
                    "former", d->former[0] ? d->former : NULL,
                    "base", (json_int_t) d->base,
                    "target", (json_int_t) s->target,
                    "disk", d->name, "disks", names,
                    "pass", (int) d->pass, "final", final,
                    "source", source, "started", (json_int_t) s->started,
                    "cluster_size", (json_int_t) d->disk->cluster_size);
}

static int
start_stream (struct source *s, struct source_disk *d, bool final,
              struct stream_spec *spec)
{
  CLEANUP_JSON json_t *json = NULL;

  d->pass++;
  d->in_pass = true;
  json = record (s, d, final);
  spec->size = d->disk->size;
  spec->record = json;
  if (!json) {
    log_error ("%s: out of memory", d->name);
    return -1;
  }
  return stream_start (&d->stream, s->dir, d->name, spec, &s->stream);
}

static void
held (struct source *s, unsigned ms)
{
  if (ms > s->hold_ms)
    s->hold_ms = ms;
}

/* Does the pass in hand send what is put together from several places? */
static bool
is_composed_pass (const struct source_disk *d)
{
  return d->pass == 0 && source_is_composed (d);
}

/* Carry out the bitmap that says what this pass must send, if it has one. */
static int
take_map (struct source *s, struct source_disk *d)
{
  const char *node = is_composed_pass (d) ? d->base_node : d->disk->node;

  if (d->last_bitmap[0] == '\0')
    return 0;
  drop_file (&d->map);
  d->map = scratch_file (d, "map.qcow2");
  if (!d->map)
    return -1;
  return map_take (s->qmp, node, d->last_bitmap, d->disk->size,
                   d->granularity, d->map, d->tag);
}

/* Put together what a composed pass must send; the disk is flushed, or no
 * machine runs.
 */
static int
make_list (struct source *s, struct source_disk *d)
{
  struct compose_spec spec = {
    .map = d->map, .disk = d->disk, .above = d->base_above,
    .differences = &d->differences, .dir = s->dir, .name = d->name,
  };

  drop_file (&d->list);
  d->list = scratch_file (d, "list");
  return d->list ? compose_list (&spec, d->list) : -1;
}

/* The stream of the image file itself, read from outside. */
static int
start_image_stream (struct source *s, struct source_disk *d)
{
  struct stream_spec spec = {
    .plan = d->map ? STREAM_MAP : STREAM_ALL,
    .driver = d->disk->driver, .image = d->disk->file, .running = true,
    .backing = &d->disk->backing, .map = d->map,
  };

  if (is_composed_pass (d)) {
    if (make_list (s, d) == -1)
      return -1;
    spec.plan = STREAM_LIST;
    spec.list = d->list;
  }
  return start_stream (s, d, false, &spec);
}

/* From here on the pass's own bitmap records what the pass may miss: of a
 * qcow2 by whole clusters.  The first write to a cluster of a backing file or
 * an internal snapshot, or to a compressed one, makes QEMU copy the rest of
 * it to a new cluster, mostly at the end of the file; the pass's reader may
 * find it there, but takes the file to be as long as when it was opened, and
 * what is beyond that to be zeroes.
 */
static int
add_pass_bitmap (struct source *s, struct source_disk *d,
                 char ret[BITMAP_NAME_MAX])
{
  uint64_t granularity = d->granularity;

  if (granularity < d->disk->cluster_size)
    granularity = d->disk->cluster_size;
  bitmap_name (d->chain, s->target, d->pass + 1, ret);
  FAULT_POINT ("precopy-begin");
  return bitmap_add (s->qmp, d->disk, ret, granularity);
}

static int
begin_precopy (struct source *s, struct source_disk *d)
{
  char bitmap[BITMAP_NAME_MAX];
  unsigned ms;

  if (add_pass_bitmap (s, d, bitmap) == -1 || take_map (s, d) == -1)
    return -1;
  strcpy (d->sent_bitmap, d->last_bitmap);
  strcpy (d->last_bitmap, bitmap);
  FAULT_POINT ("precopy-map-taken");
  if (flush_disk (s->qmp, d->disk, d->tag, &ms) == -1) {
    if (errno == EOPNOTSUPP)
      log_error ("%s: give more room for a spool by --scratch and "
                 "--scratch-limit", d->name);
    return -1;
  }
  held (s, ms);
  FAULT_POINT ("precopy-flushed");
  if (precopy_begin (s->qmp, d->disk, &d->state) == -1)
    return -1;
  FAULT_POINT ("precopy-state-read");
  return start_image_stream (s, d);
}

static int
begin_precopies (struct source *s)
{
  FOR_EACH_DISK (s, d)
    if (d->precopy && begin_precopy (s, d) == -1)
      return -1;
  return 0;
}

/* The receiver has flushed all of the pass.  If nothing moved while it was
 * read, the bitmap of the pass before has done its work.
 */
static int
end_precopy (struct source *s, struct source_disk *d)
{
  unsigned ms;
  int r;

  if (flush_disk (s->qmp, d->disk, d->tag, &ms) == -1)
    return -1;
  held (s, ms);
  FAULT_POINT ("precopy-end-flushed");
  r = precopy_check (s->qmp, d->disk, &d->state);
  precopy_state_reset (&d->state);
  if (r == 0 && d->sent_bitmap[0] &&
      strcmp (d->sent_bitmap, d->good_bitmap) != 0)
    r = bitmap_remove (s->qmp, d->disk->node, d->sent_bitmap);
  return r;
}

/* After a precopy pass: is what is left small enough for the final spool?
 * If not, another pass, as long as each leaves clearly less than the last.
 */
static int
judge_precopies (struct source *s)
{
  uint64_t left = 0, before = s->left_bytes;
  double seconds = (clock_ms () - s->pass_ms) / 1000.0;

  FOR_EACH_DISK (s, d) {
    if (d->precopy &&
        bitmap_spool_bytes (s->qmp, d->disk, d->last_bitmap, d->tag,
                            &d->spool_bytes) == -1)
      return -1;
    left += d->spool_bytes;
  }
  s->left_bytes = left;
  s->more = left > (uint64_t) s->final_limit;
  log_debug ("%" PRIu64 " bytes are left for %s", left,
             s->more ? "another pass" : "the final spool");
  if (s->more && left > before / 5 * 4) {
    log_error ("%s: the guest writes faster than the link carries: in a pass "
               "of %.0f s, which had %" PRIu64 " MiB to send, it changed %"
               PRIu64 " MiB, and the final spool may take %" PRIi64 " MiB: "
               "give that more room by --final-limit and --scratch, or sync "
               "when the guest is quieter", s->spec, seconds, before >> 20,
               left >> 20, s->final_limit >> 20);
    return -1;
  }
  return 0;
}

static int
take_spool (struct source *s)
{
  struct spool_disk *spools = calloc (s->disks.len, sizeof *spools);
  uint64_t limit = 0;
  unsigned ms;
  size_t i = 0;
  int r = -1;

  if (!spools) {
    log_error ("out of memory");
    return -1;
  }
  FOR_EACH_DISK (s, d) {
    drop_file (&d->image);
    d->image = scratch_file (d, "spool.qcow2");
    if (!d->image)
      goto out;
    spools[i++] = (struct spool_disk) {
      .disk = d->disk, .path = d->image, .tag = d->tag,
      .old_bitmap = d->last_bitmap[0] ? d->last_bitmap : NULL,
      .new_bitmap = d->new_bitmap, .granularity = d->granularity,
    };
  }
  limit = s->scratch_limit > s->final_limit ?
    s->scratch_limit : s->final_limit;
  r = spool_take (s->qmp, spools, i, limit, SPOOL_TIMEOUT_MS, agent_is_over,
                  &ms);
  if (r == 0) {
    held (s, ms);
    log_debug ("spool: taken in one transaction of %u ms", ms);
  }
 out:
  free (spools);
  return r;
}

static int
begin_spool (struct source *s)
{
  /* On the nodes that were planned the instant is of the machine's disks
   * only if the machine has them still, also right after it.
   */
  if (source_check_nodes (s) == -1 || take_spool (s) == -1 ||
      source_check_nodes (s) == -1)
    return -1;
  FAULT_POINT ("spool-taken");
  FOR_EACH_DISK (s, d) {
    struct stream_spec spec = {
      .plan = d->last_bitmap[0] ? STREAM_SPOOL : STREAM_ALL,
      .driver = "qcow2", .image = d->image,
    };
    if (start_stream (s, d, true, &spec) == -1)
      return -1;
  }
  return 0;
}

/* The stopped machine. */

int
source_open_daemon (struct source *s)
{
  struct daemon_image *images = calloc (s->nr_files, sizeof *images);
  char (*nodes)[32] = calloc (s->nr_files, sizeof *nodes);
  int r = -1;

  if (!images || !nodes) {
    log_error ("out of memory");
    goto out;
  }
  for (size_t i = 0; i < s->nr_files; i++) {
    snprintf (nodes[i], sizeof nodes[i], "disk%zu", i);
    /* Probing would believe a guest that writes another format's header
     * into its raw disk: a file that says it is raw is raw.
     */
    const char *dot = strrchr (s->files[i], '.');
    images[i] = (struct daemon_image) {
      .file = s->files[i], .node = nodes[i],
      .format = dot && strcmp (dot, ".raw") == 0 ? "raw" : NULL,
    };
  }
  r = daemon_start (&s->daemon, images, s->nr_files);
  s->qmp = r == 0 ? s->daemon.qmp : NULL;
 out:
  free (images);
  free (nodes);
  return r;
}

int
source_quit_daemon (struct source *s)
{
  s->qmp = NULL;
  return daemon_quit (&s->daemon);
}

static int
begin_stopped (struct source *s)
{
  if (!s->qmp && source_open_daemon (s) == -1)
    return -1;
  FOR_EACH_DISK (s, d)
    if ((disk_can_persist (d->disk) &&
         bitmap_add (s->qmp, d->disk, d->new_bitmap, d->granularity) == -1) ||
        take_map (s, d) == -1)
      return -1;
  if (source_quit_daemon (s) == -1)
    return -1;
  FOR_EACH_DISK (s, d)
    if (start_image_stream (s, d) == -1)
      return -1;
  return 0;
}

/* The new bitmap tells whether anybody wrote while we read. */
static int
end_stopped (struct source *s)
{
  if (source_open_daemon (s) == -1) {
    if (errno == EBUSY)
      log_error ("%s: the machine was started during the copy: sync it by "
                 "qmp:SOCKET now", s->spec);
    return -1;
  }
  FOR_EACH_DISK (s, d) {
    disks now = { 0 };
    struct disk *disk = NULL;
    const struct bitmap *b = NULL;
    bool persists = disk_can_persist (d->disk), clean;

    if (disks_list (s->qmp, &now) == 0) {
      disk = disks_find (&now, d->disk->node);
      b = disk ? disk_find_bitmap (disk, d->new_bitmap) : NULL;
    }
    clean = disk && disk->size == d->disk->size &&
      (!persists || (bitmap_state (b) == BITMAP_GOOD && b->count == 0));
    disks_free (&now);
    if (!clean) {
      log_error ("%s: it was written to during the copy: run again",
                 d->name);
      return -1;
    }
  }
  return source_quit_daemon (s);
}

static int
begin_empty (struct source *s)
{
  FOR_EACH_DISK (s, d) {
    struct stream_spec spec = { .plan = STREAM_EMPTY };
    if (start_stream (s, d, true, &spec) == -1)
      return -1;
  }
  return 0;
}

/* The guest wrote between the estimate and the instant, and now it is too
 * much for a spool: send that in a pass, too.  False if nothing can be read
 * from outside, or it has happened too often.
 */
static bool
spool_outgrown (struct source *s)
{
  bool can = false;

  FOR_EACH_DISK (s, d)
    if (!d->disk->spool_only && d->last_bitmap[0]) {
      d->precopy = true;
      can = true;
    }
  s->more = can && s->outgrown++ < OUTGROWN_MAX;
  if (s->more)
    log_debug ("the guest wrote too much for the final spool: another pass");
  return s->more;
}

/* Both. */

static bool
precopies_wanted (const struct source *s)
{
  FOR_EACH_DISK (s, d)
    if (d->precopy && (d->pass == 0 || s->more))
      return true;
  return false;
}

int
source_next_pass (struct source *s, json_t **ret)
{
  json_t *list = json_array ();
  bool precopy = precopies_wanted (s);
  int r;

  s->pass = precopy ? PASS_PRECOPY : PASS_FINAL;
  s->pass_ms = clock_ms ();
  if (s->stopped)
    r = precopy ? begin_stopped (s) : begin_empty (s);
  else
    r = precopy ? begin_precopies (s) : begin_spool (s);
  if (!s->stopped && !precopy && r == -1 && errno == EFBIG &&
      spool_outgrown (s)) {
    s->pass = PASS_PRECOPY;
    r = begin_precopies (s);
  }
  if (r == -1) {
    json_decref (list);
    return -1;
  }
  FOR_EACH_DISK (s, d)
    if (d->in_pass)
      json_array_append_new (
        list, json_pack ("{s:s, s:s}", "name", d->name,
                          "socket", d->stream.server.socket));
  FAULT_POINT ("pass-begun");
  *ret = json_pack ("{s:o, s:b, s:i}", "disks", list,
                    "final", s->pass == PASS_FINAL,
                    "hold_ms", (int) s->hold_ms);
  return 0;
}

static void
add_stats (struct stream_stats *sum, const struct stream_stats *pass)
{
  sum->frames += pass->frames;
  sum->planned_bytes += pass->planned_bytes;
  sum->data_bytes += pass->data_bytes;
  sum->zero_bytes += pass->zero_bytes;
  sum->sent_bytes += pass->sent_bytes;
  sum->frames_sent += pass->frames_sent;
  sum->level = pass->level;
}

void
source_stop_streams (struct source *s)
{
  FOR_EACH_DISK (s, d) {
    struct stream_stats stats = { 0 };

    stream_stop (&d->stream, d->in_pass ? &stats : NULL);
    FAULT_POINT ("stream-stopped");
    add_stats (&d->done, &stats);
    d->in_pass = false;
    drop_file (&d->image);
    drop_file (&d->map);
    drop_file (&d->list);
    precopy_state_reset (&d->state);
  }
}

int
source_end_pass (struct source *s, json_t **ret)
{
  int r = 0;

  FOR_EACH_DISK (s, d)
    if (d->in_pass && s->pass == PASS_PRECOPY) {
      struct stream_stats stats;

      stream_stop (&d->stream, &stats);
      add_stats (&d->done, &stats);
      d->in_pass = false;
      if (!s->stopped && end_precopy (s, d) == -1)
        return -1;
    }
  if (s->pass == PASS_PRECOPY)
    r = s->stopped ? end_stopped (s) : judge_precopies (s);
  source_stop_streams (s);
  FAULT_POINT ("pass-ended");
  *ret = json_pack ("{s:i}", "hold_ms", (int) s->hold_ms);
  return r;
}

json_t *
source_stats (struct source *s)
{
  json_t *list = json_array ();

  FOR_EACH_DISK (s, d) {
    struct stream_stats now = d->done, pass;

    if (d->in_pass) {
      stream_read_stats (&d->stream, &pass);
      add_stats (&now, &pass);
    }
    else
      memset (&pass, 0, sizeof pass);
    json_array_append_new (
      list, json_pack ("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:i}",
                        "name", d->name,
                        "planned_bytes", (json_int_t) now.planned_bytes,
                        "data_bytes", (json_int_t) now.data_bytes,
                        "zero_bytes", (json_int_t) now.zero_bytes,
                        "wire_bytes", (json_int_t) now.sent_bytes,
                        "pass_frames", (json_int_t) pass.frames,
                        "pass_frames_sent", (json_int_t) pass.frames_sent,
                        "level", now.level));
  }
  return json_pack ("{s:o}", "disks", list);
}
