/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The spool.
 *
 * Each disk has a qcow2 node and a backup job, both called
 * nbdsync-<tag>-spool.  One transaction starts all jobs and adds all new
 * bitmaps; that is the instant.  When all jobs have ended well, the old
 * bitmap (busy until then; so the map also has bits of later writes) is
 * merged into the file.  The file counts only when blockdev-del has
 * succeeded: until then its metadata is in QEMU's cache, and on disk it
 * looks like an empty one.
 *
 * BLOCK_JOB_COMPLETED comes for jobs that failed as well, and events can be
 * lost; so events only wake us up and query-jobs decides.
 *
 * Closing a file makes QEMU write it out with its big lock held; so we sync
 * it from here first.
 *
 * Undoing is the same list backwards, each step of which does nothing if
 * there is nothing to do: jobs, nodes, bitmaps, files.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bitmaps.h"
#include "block.h"
#include "cleanup.h"
#include "clock.h"
#include "fault.h"
#include "flush.h"
#include "json.h"
#include "log.h"
#include "reserve.h"
#include "spool.h"

#define UNDO_TIMEOUT_MS 30000
#define CLOSE_TIMEOUT_MS 60000
#define WATCH_MS 50             /* between looks at jobs and free space */

struct item {
  struct spool_disk *spec;
  const char *name;             /* for messages */
  char node[NODE_NAME_MAX];     /* and job */
  int fd;                       /* of the file, or -1 */
  bool created;                 /* the file is ours */
  uint64_t reserved;            /* bytes of the file */
  uint64_t total;               /* what the job is going to copy */
  bool done;
};
DEFINE_VECTOR (items, struct item)

struct spool {
  struct qmp *qmp;
  items items;
  uint64_t limit_bytes;
  int64_t deadline;
  bool (*is_over) (void);
  bool started;                 /* the new bitmaps are ours */
};

int
spool_settle (struct qmp *qmp, const char *tag)
{
  char name[NODE_NAME_MAX];

  block_our_name (tag, BLOCK_SPOOL, name);
  if (block_job_remove (qmp, name, UNDO_TIMEOUT_MS) == -1 ||
      block_node_remove (qmp, name) == -1)
    return -1;
  block_our_name (tag, BLOCK_MAP, name);
  if (block_node_remove (qmp, name) == -1)
    return -1;
  return flush_settle (qmp, tag);
}

/* How much will the job copy?  Of a full copy we only know how much is
 * allocated.
 */
static int
estimate (struct spool *s, const struct item *item, uint64_t *ret)
{
  const struct spool_disk *spec = item->spec;

  if (spec->old_bitmap)
    return bitmap_spool_bytes (s->qmp, spec->disk, spec->old_bitmap,
                               spec->tag, ret);
  *ret = spec->disk->allocated < spec->disk->size ? spec->disk->allocated
    : spec->disk->size;
  return 0;
}

static int
no_room (const struct item *item, uint64_t bytes)
{
  if (errno == ENOSPC)
    log_error ("%s: no room for the spool of %s (%" PRIu64 " MiB)",
               item->spec->path, item->name, (bytes >> 20) + 1);
  else
    log_error ("%s: reserving space: %m", item->spec->path);
  return -1;
}

static int
over_limit (const struct spool *s, uint64_t total)
{
  log_error ("the spool needs %" PRIu64 " bytes, more than its limit of %"
             PRIu64, total, s->limit_bytes);
  errno = EFBIG;
  return -1;
}

static int
prepare (struct spool *s)
{
  uint64_t bytes, total = 0;

  for (size_t i = 0; i < s->items.len; i++) {
    struct item *item = &s->items.ptr[i];
    const struct spool_disk *spec = item->spec;

    if (spool_settle (s->qmp, spec->tag) == -1 ||
        estimate (s, item, &bytes) == -1)
      return -1;
    if (access (spec->path, F_OK) == 0) {
      errno = EEXIST;
      log_error ("%s: %m", spec->path);
      return -1;
    }
    total += bytes;
    if (s->limit_bytes > 0 && total > s->limit_bytes)
      return over_limit (s, total);
    if (block_node_create (s->qmp, item->node, spec->path,
                           spec->disk->size) == -1)
      return -1;
    item->created = true;
    FAULT_POINT ("spool-node-created");
    item->fd = open (spec->path, O_RDWR | O_CLOEXEC);
    if (item->fd == -1) {
      log_error ("%s: %m", spec->path);
      return -1;
    }
    /* The guest writes on until the transaction: some more. */
    item->reserved = reserve_estimate (bytes + bytes / 8, spec->disk->size,
                                       spec->granularity);
    if (reserve_space (item->fd, item->reserved) == -1)
      return no_room (item, item->reserved);
    FAULT_POINT ("spool-reserved");
  }
  return 0;
}

static json_t *
backup_action (const struct item *item)
{
  const struct spool_disk *spec = item->spec;
  const struct disk *disk = spec->disk;
  /* What no layer has allocated reads as zero and need not be copied. */
  bool top = strcmp (disk->driver, "qcow2") == 0 && disk->backing.len == 0;
  json_t *data =
    json_pack ("{ss, ss, ss, ss, ss, sb}", "job-id", item->node,
               "device", disk->node, "target", item->node,
               "sync", spec->old_bitmap ? "bitmap" : top ? "top" : "full",
               "on-target-error", "report", "auto-dismiss", 0);

  if (spec->old_bitmap &&
      (json_object_set_new (data, "bitmap",
                            json_string (spec->old_bitmap)) == -1 ||
       json_object_set_new (data, "bitmap-mode",
                            json_string ("never")) == -1)) {
    json_decref (data);
    data = NULL;
  }
  return json_pack ("{ss, so}", "type", "blockdev-backup", "data", data);
}

/* The instant.  Every backup drains its node until the transaction ends, so
 * backups first: then nothing is written between backup and bitmap.
 */
static int
start (struct spool *s, unsigned *ret_ms)
{
  json_t *actions = json_array ();
  int64_t begin;
  int r = 0;

  for (size_t i = 0; i < s->items.len; i++)
    r |= json_array_append_new (actions, backup_action (&s->items.ptr[i]));
  for (size_t i = 0; i < s->items.len; i++) {
    const struct spool_disk *spec = s->items.ptr[i].spec;

    if (spec->new_bitmap)
      r |= json_array_append_new (actions,
                                  bitmap_add_action (spec->disk,
                                                     spec->new_bitmap,
                                                     spec->granularity));
  }
  if (r != 0) {
    json_decref (actions);
    log_error ("%s: out of memory, or a name is not UTF-8",
               qmp_name (s->qmp));
    errno = ENOMEM;
    return -1;
  }
  begin = clock_ms ();
  if (qmp_transaction (s->qmp, actions) == -1)
    return -1;
  s->started = true;
  if (ret_ms)
    *ret_ms = clock_ms () - begin;
  FAULT_POINT ("spool-started");
  return 0;
}

/* One look at a job: has it ended, how long is it? */
static int
look (struct item *item, const json_t *jobs)
{
  const char *id = NULL, *status, *error;
  uint64_t total = 0;
  json_t *job = NULL;
  size_t i;

  json_array_foreach (jobs, i, job) {
    id = json_get_string (job, "id");
    if (id && strcmp (id, item->node) == 0)
      break;
  }
  if (i == json_array_size (jobs)) {
    log_error ("%s: somebody removed the spool's job", item->name);
    errno = ECANCELED;
    return -1;
  }
  json_get_u64 (job, "total-progress", &total);
  if (total > item->total)
    item->total = total;
  status = json_get_string (job, "status");
  if (!status || strcmp (status, "concluded") != 0)
    return 0;
  error = json_get_string (job, "error");
  if (error) {
    log_error ("%s: spool %s: %s", item->name, item->spec->path, error);
    errno = strstr (error, "No space left") ? ENOSPC : EIO;
    return -1;
  }
  json_get_u64 (job, "current-progress", &item->spec->copied);
  item->done = true;
  return 0;
}

/* Is there room for what the job really copies?  A full copy's total
 * counts holes, so its size is the one that was estimated.
 */
static int
check_room (struct item *item)
{
  const struct spool_disk *spec = item->spec;
  uint64_t need;

  if (spec->old_bitmap) {
    need = reserve_estimate (item->total, spec->disk->size,
                             spec->granularity);
    if (need > item->reserved) {
      if (reserve_space (item->fd, need) == -1)
        return no_room (item, need);
      item->reserved = need;
    }
  }
  if (reserve_is_low (item->fd)) {
    errno = ENOSPC;
    return no_room (item, item->total);
  }
  return 0;
}

static int
check_limit (const struct spool *s)
{
  uint64_t total = 0;

  for (size_t i = 0; i < s->items.len; i++) {
    const struct item *item = &s->items.ptr[i];
    const struct disk *disk = item->spec->disk;

    total += item->spec->old_bitmap || item->total < disk->allocated
      ? item->total : disk->allocated;
  }
  if (s->limit_bytes > 0 && total > s->limit_bytes)
    return over_limit (s, total);
  return 0;
}

static int
watch (struct spool *s)
{
  for (;;) {
    CLEANUP_JSON json_t *jobs = NULL;
    bool all_done = true;

    if (qmp_execute (s->qmp, "query-jobs", NULL, &jobs) == -1)
      return -1;
    for (size_t i = 0; i < s->items.len; i++) {
      struct item *item = &s->items.ptr[i];

      if (look (item, jobs) == -1)
        return -1;
      if (!item->done) {
        all_done = false;
        if (check_room (item) == -1)
          return -1;
      }
    }
    if (check_limit (s) == -1)
      return -1;
    if (all_done)
      return 0;
    if (s->is_over && s->is_over ()) {
      log_error ("%s: the spool is not wanted any more", qmp_name (s->qmp));
      errno = ECANCELED;
      return -1;
    }
    if (clock_left_ms (s->deadline) == 0) {
      log_error ("%s: the spool was not ready in time", qmp_name (s->qmp));
      errno = ETIMEDOUT;
      return -1;
    }
    if (block_job_pause (s->qmp, WATCH_MS) == -1)
      return -1;
  }
}

static int
close_file (struct spool *s, struct item *item)
{
  const char *refusal = NULL;

  if (fdatasync (item->fd) == -1) {
    log_error ("%s: %m", item->spec->path);
    return -1;
  }
  FAULT_POINT ("spool-synced");
  if (qmp_try (s->qmp, "blockdev-del",
               json_pack ("{ss}", "node-name", item->node),
               CLOSE_TIMEOUT_MS, NULL, &refusal) == -1) {
    if (refusal)
      log_error ("%s: blockdev-del: %s", item->node, refusal);
    return -1;
  }
  FAULT_POINT ("spool-closed");
  if (reserve_trim (item->fd) == -1 || fsync (item->fd) == -1) {
    log_error ("%s: %m", item->spec->path);
    return -1;
  }
  return 0;
}

static int
finish (struct spool *s)
{
  FAULT_POINT ("spool-copied");
  for (size_t i = 0; i < s->items.len; i++)
    if (qmp_execute (s->qmp, "job-dismiss",
                     json_pack ("{ss}", "id", s->items.ptr[i].node),
                     NULL) == -1)
      return -1;
  for (size_t i = 0; i < s->items.len; i++) {
    const struct spool_disk *spec = s->items.ptr[i].spec;

    if (spec->old_bitmap &&
        block_map_merge (s->qmp, s->items.ptr[i].node, MAP_BITMAP,
                         spec->granularity, spec->disk->node,
                         spec->old_bitmap) == -1)
      return -1;
  }
  FAULT_POINT ("spool-maps-merged");
  for (size_t i = 0; i < s->items.len; i++)
    if (close_file (s, &s->items.ptr[i]) == -1)
      return -1;
  FAULT_POINT ("spool-complete");
  return 0;
}

static void
undo (struct spool *s)
{
  FAULT_POINT ("spool-undo");
  for (size_t i = 0; i < s->items.len; i++)
    block_job_remove (s->qmp, s->items.ptr[i].node, UNDO_TIMEOUT_MS);
  for (size_t i = 0; i < s->items.len; i++) {
    const struct spool_disk *spec = s->items.ptr[i].spec;

    block_node_remove (s->qmp, s->items.ptr[i].node);
    if (s->started && spec->new_bitmap)
      bitmap_remove (s->qmp, spec->disk->node, spec->new_bitmap);
  }
  FAULT_POINT ("spool-undo-files");
  for (size_t i = 0; i < s->items.len; i++)
    if (s->items.ptr[i].created)
      unlink (s->items.ptr[i].spec->path);
}

int
spool_take (struct qmp *qmp, struct spool_disk *specs, size_t n,
            uint64_t limit_bytes, int timeout_ms, bool (*is_over) (void),
            unsigned *ret_ms)
{
  struct spool s = {
    .qmp = qmp, .limit_bytes = limit_bytes,
    .deadline = clock_ms () + timeout_ms, .is_over = is_over,
  };
  int r = 0, saved;

  for (size_t i = 0; i < n && r == 0; i++) {
    struct item item = {
      .spec = &specs[i], .name = disk_default_name (specs[i].disk), .fd = -1
    };

    block_our_name (specs[i].tag, BLOCK_SPOOL, item.node);
    specs[i].copied = 0;
    r = items_append (&s.items, item);
    if (r == -1)
      log_error ("%s: %m", qmp_name (qmp));
  }
  if (r == 0 && (prepare (&s) == -1 || start (&s, ret_ms) == -1 ||
                 watch (&s) == -1 || finish (&s) == -1)) {
    saved = errno;
    undo (&s);
    errno = saved;
    r = -1;
  }
  saved = errno;
  for (size_t i = 0; i < s.items.len; i++)
    cleanup_fd (&s.items.ptr[i].fd);
  items_reset (&s.items);
  errno = saved;
  return r;
}
