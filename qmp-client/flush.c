/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Flushing a node's metadata out of a running QEMU.
 *
 * A machine: "qemu-io NODE flush" of the human monitor, which does not
 * pause the guest; where that is refused, stop flushes everything, and cont
 * follows only if the machine was running.  A storage daemon has neither:
 * a read-only vhost-user-blk export of ours, for a moment, in its main
 * thread, takes a flush request and hands it to the node (vhost-flush.c;
 * a flush through a read-only export writes the metadata as well: tested).
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "block.h"
#include "cleanup.h"
#include "clock.h"
#include "flush.h"
#include "json.h"
#include "log.h"
#include "peer.h"
#include "process.h"
#include "runtime-dir.h"
#include "vhost-flush.h"

#define FLUSH_TIMEOUT_MS 60000  /* the page cache may have to go to disk */
#define EXPORT_TIMEOUT_MS 5000

/* 1 flushed, 0 the human monitor does not do it, -1 with a message. */
static int
flush_by_hmp (struct qmp *qmp, const struct disk *disk)
{
  CLEANUP_FREE char *line = NULL;
  CLEANUP_JSON json_t *answer = NULL;
  const char *refusal = NULL;

  if (asprintf (&line, "qemu-io %s \"flush\"", disk->node) == -1) {
    line = NULL;
    log_error ("%s: out of memory", qmp_name (qmp));
    return -1;
  }
  if (qmp_try (qmp, "human-monitor-command",
               json_pack ("{ss}", "command-line", line), FLUSH_TIMEOUT_MS,
               &answer, &refusal) == -1) {
    if (!refusal)
      return -1;
  }
  else if (json_is_string (answer) && json_string_length (answer) == 0)
    return 1;                   /* an error would be a text here */
  else
    refusal = json_string_value (answer);
  log_debug ("%s: qemu-io flush: %s", qmp_name (qmp),
             refusal ? refusal : "no string");
  return 0;
}

static int
flush_by_stop (struct qmp *qmp)
{
  CLEANUP_JSON json_t *status = NULL;
  const char *refusal = NULL;
  bool running;

  if (qmp_execute (qmp, "query-status", NULL, &status) == -1)
    return -1;
  if (json_get_bool (status, "running", &running) == -1) {
    log_error ("%s: query-status: no status", qmp_name (qmp));
    errno = EBADMSG;
    return -1;
  }
  if (qmp_try (qmp, "stop", NULL, FLUSH_TIMEOUT_MS, NULL, &refusal) == -1) {
    if (refusal) {
      log_error ("%s: stop: %s", qmp_name (qmp), refusal);
      errno = EOPNOTSUPP;
    }
    return -1;
  }
  return running ? qmp_execute (qmp, "cont", NULL, NULL) : 0;
}

static bool
export_deleted (const json_t *event, void *opaque)
{
  const char *name = json_get_string (event, "event");
  const char *id = json_get_string (json_object_get (event, "data"), "id");

  return name && id && strcmp (name, "BLOCK_EXPORT_DELETED") == 0 &&
    strcmp (id, opaque) == 0;
}

static int
export_remove (struct qmp *qmp, char *id)
{
  json_t *event;

  if (qmp_execute (qmp, "block-export-del",
                   json_pack ("{ss, ss}", "id", id, "mode", "hard"),
                   NULL) == -1)
    return -1;
  event = qmp_wait_event (qmp, export_deleted, id, EXPORT_TIMEOUT_MS);
  if (!event && errno == ETIMEDOUT)
    log_error ("%s: export %s does not end", qmp_name (qmp), id);
  json_decref (event);
  return event ? 0 : -1;
}

int
flush_settle (struct qmp *qmp, const char *tag)
{
  char ours[NODE_NAME_MAX];
  CLEANUP_JSON json_t *exports = NULL;
  json_t *export;
  size_t i;

  if (qmp_execute (qmp, "query-block-exports", NULL, &exports) == -1)
    return -1;
  block_our_name (tag, BLOCK_FLUSH, ours);
  json_array_foreach (exports, i, export) {
    const char *id = json_get_string (export, "id");

    if (id && strcmp (id, ours) == 0)
      return export_remove (qmp, ours);
  }
  return 0;
}

static int
flush_by_export (struct qmp *qmp, const struct disk *disk, const char *tag,
                 const char *dir)
{
  char id[NODE_NAME_MAX];
  CLEANUP_FREE char *path = NULL;
  const char *refusal = NULL;
  int r;

  if (asprintf (&path, "%s/flush", dir) == -1) {
    path = NULL;
    log_error ("%s: out of memory", qmp_name (qmp));
    return -1;
  }
  if (flush_settle (qmp, tag) == -1)
    return -1;
  block_our_name (tag, BLOCK_FLUSH, id);
  if (qmp_try (qmp, "block-export-add",
               json_pack ("{ss, ss, ss, sb, s{ss, ss}}",
                          "type", "vhost-user-blk", "id", id,
                          "node-name", disk->node, "writable", 0,
                          "addr", "type", "unix", "path", path),
               QMP_TIMEOUT_MS, NULL, &refusal) == -1) {
    if (refusal) {
      log_error ("%s: node %s cannot be flushed here: %s", qmp_name (qmp),
                 disk->node, refusal);
      errno = EOPNOTSUPP;
    }
    return -1;
  }
  r = vhost_flush (path, FLUSH_TIMEOUT_MS);
  if (export_remove (qmp, id) == -1)
    r = -1;
  return r;
}

int
flush_disk (struct qmp *qmp, const struct disk *disk, const char *tag,
            unsigned *ret_ms)
{
  bool storage_daemon;
  int64_t start;
  char *dir;
  int r;

  if (disks_is_storage_daemon (qmp, &storage_daemon) == -1)
    return -1;
  if (storage_daemon) {
    dir = runtime_dir_create ();
    if (!dir)
      return -1;
    start = clock_ms ();
    r = peer_own (qmp, dir);
    if (r == 0)
      r = flush_by_export (qmp, disk, tag, dir);
    runtime_dir_remove (dir);
    free (dir);
  }
  else {
    start = clock_ms ();
    r = flush_by_hmp (qmp, disk);
    if (r == 0)
      r = flush_by_stop (qmp);
    else if (r == 1)
      r = 0;
  }
  if (r == 0 && ret_ms)
    *ret_ms = clock_ms () - start;
  return r;
}
