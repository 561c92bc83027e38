/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Did clusters move during a pass?
 *
 * A reader from outside sees each cluster where the L1 and L2 tables said
 * it lies when the pass began.  That stays right for whatever the guest
 * does not write, unless something moves or frees an L2 table
 * or a layer: a snapshot that is taken, applied or deleted, a resize, a
 * commit or stream job, another active layer.  Those are looked for here.
 *
 * Each L1 entry that was there must be the same at the end.  The exception:
 * an L2 table that was shared with an internal snapshot (its entry lacks
 * the COPIED flag) is copied when the guest first writes to what it maps;
 * the old one stays as it is as long as the snapshot does, and the list of
 * snapshots must be the same anyway.
 *
 * A backup job reads and moves nothing; all other jobs void the pass.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block.h"
#include "cleanup.h"
#include "json.h"
#include "log.h"
#include "precopy.h"
#include "qcow2.h"

void
precopy_state_reset (struct precopy_state *s)
{
  free (s->node);
  free (s->file);
  free (s->chain);
  free (s->snapshots);
  free (s->l1);
  *s = (struct precopy_state) { 0 };
}

static int
void_pass (const char *name, const char *why)
{
  log_error ("%s: the pass is void: %s: run again", name, why);
  errno = ESTALE;
  return -1;
}

/* An event that tells of a job that was there and is not ours. */
static bool
foreign_job_event (const json_t *event, void *opaque)
{
  const json_t *data = json_object_get (event, "data");
  const char *name = json_get_string (event, "event");
  const char *type = json_get_string (data, "type");
  const char *id = json_get_string (data, "device");

  return name && type && id && strncmp (name, "BLOCK_JOB_", 10) == 0 &&
    strcmp (type, "backup") != 0 && !block_is_our_name (id);
}

/* 1: a job that moves clusters runs, or ran since the last call. */
static int
jobs_seen (struct qmp *qmp)
{
  CLEANUP_JSON json_t *jobs = NULL;
  json_t *job, *event;
  int seen = 0;
  size_t i;

  if (qmp_execute (qmp, "query-jobs", NULL, &jobs) == -1)
    return -1;
  json_array_foreach (jobs, i, job) {
    const char *id = json_get_string (job, "id");
    const char *type = json_get_string (job, "type");

    if (!type || strcmp (type, "backup") != 0)
      if (!id || !block_is_our_name (id))
        seen = 1;
  }
  while ((event = qmp_wait_event (qmp, foreign_job_event, NULL, 0))) {
    seen = 1;
    json_decref (event);
  }
  return errno == EPIPE ? -1 : seen;
}

/* File names and sizes of all layers. */
static json_t *
describe_chain (const struct graph *g, const char *node)
{
  json_t *chain = json_array ();
  const char *name = node;

  while (name && json_array_size (chain) < 1000) {
    json_t *info = graph_node (g, name);
    json_t *image = json_object_get (info, "image");

    json_array_append (chain, json_object_get (info, "node-name"));
    json_array_append (chain, json_object_get (info, "file"));
    json_array_append (chain, json_object_get (image, "virtual-size"));
    name = graph_child (g, name, "backing");
    if (name)
      name = graph_skip_filters (g, name);
  }
  return chain;
}

/* The id and name of each internal snapshot. */
static json_t *
describe_snapshots (const json_t *image)
{
  json_t *list = json_array (), *snapshot;
  size_t i;

  json_array_foreach (json_object_get (image, "snapshots"), i, snapshot) {
    json_array_append (list, json_object_get (snapshot, "id"));
    json_array_append (list, json_object_get (snapshot, "name"));
    json_array_append (list, json_object_get (snapshot, "date-sec"));
  }
  return list;
}

/* What QEMU says.  Which node is active is asked anew. */
static int
read_qemu (struct qmp *qmp, const struct disk *disk, struct precopy_state *s)
{
  CLEANUP_JSON json_t *chain = NULL, *snapshots = NULL;
  disks now = { 0 };
  struct disk *d = NULL;
  struct graph g;
  int r = -1;

  if (disks_list (qmp, &now) == -1)
    goto out;
  for (size_t i = 0; i < now.len && !d; i++)
    if (disk->device[0] != '\0'
        ? strcmp (now.ptr[i].device, disk->device) == 0
        : strcmp (now.ptr[i].node, disk->node) == 0)
      d = &now.ptr[i];
  if (!d) {
    r = void_pass (disk_default_name (disk), "the disk is gone");
    goto out;
  }
  if (graph_read (qmp, &g) == -1)
    goto out;
  chain = describe_chain (&g, d->node);
  snapshots = describe_snapshots (json_object_get (graph_node (&g, d->node),
                                                   "image"));
  s->chain = json_dumps (chain, JSON_COMPACT);
  s->snapshots = json_dumps (snapshots, JSON_COMPACT);
  s->node = strdup (d->node);
  s->file = strdup (d->file ? d->file : "");
  s->size = d->size;
  graph_free (&g);
  if (s->chain && s->snapshots && s->node && s->file)
    r = 0;
  else
    log_error ("%s: out of memory", disk_default_name (disk));

 out:
  disks_free (&now);
  return r;
}

/* QEMU's and the file's side of it. */
static int
read_state (struct qmp *qmp, const struct disk *disk,
            struct precopy_state *s)
{
  if (read_qemu (qmp, disk, s) == -1)
    return -1;
  if (strcmp (disk->driver, "qcow2") != 0)
    return 0;
  return qcow2_read_l1 (s->file, &s->l1_offset, &s->l1, &s->l1_entries);
}

int
precopy_begin (struct qmp *qmp, const struct disk *disk,
               struct precopy_state *state)
{
  struct precopy_state s = { 0 };
  int seen = jobs_seen (qmp);

  if (seen == 1)
    log_error ("%s: a block job is running: not now",
               disk_default_name (disk));
  if (seen != 0 || read_state (qmp, disk, &s) == -1) {
    precopy_state_reset (&s);
    if (seen == 1)
      errno = EBUSY;
    return -1;
  }
  *state = s;
  return 0;
}

/* NULL, or what moved. */
static const char *
compare (const struct precopy_state *a, const struct precopy_state *b)
{
  bool snapshots = strcmp (a->snapshots, "[]") != 0;

  if (strcmp (a->node, b->node) != 0 || strcmp (a->file, b->file) != 0)
    return "the active layer is another one";
  if (a->size != b->size)
    return "the disk was resized";
  if (strcmp (a->chain, b->chain) != 0)
    return "the backing chain is another one";
  if (strcmp (a->snapshots, b->snapshots) != 0)
    return "an internal snapshot was taken or deleted";
  if (a->l1_offset != b->l1_offset || a->l1_entries > b->l1_entries)
    return "the L1 table moved";
  for (size_t i = 0; i < a->l1_entries; i++) {
    if ((a->l1[i] & QCOW2_OFFSET_MASK) == 0 ||
        ((a->l1[i] ^ b->l1[i]) & QCOW2_OFFSET_MASK) == 0)
      continue;
    if (!snapshots || (a->l1[i] & QCOW2_COPIED) != 0)
      return "an L2 table moved";
  }
  return NULL;
}

int
precopy_check (struct qmp *qmp, const struct disk *disk,
               const struct precopy_state *state)
{
  const char *name = disk_default_name (disk), *why;
  struct precopy_state now = { 0 };
  int r, seen = jobs_seen (qmp);

  if (seen == -1)
    return -1;
  if (seen == 1)
    return void_pass (name, "a block job ran");
  r = read_state (qmp, disk, &now);
  if (r == 0) {
    why = compare (state, &now);
    if (why)
      r = void_pass (name, why);
  }
  precopy_state_reset (&now);
  return r;
}
