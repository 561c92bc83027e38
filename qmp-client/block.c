/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Nodes, the block graph and jobs of a QEMU.  No state of its own.
 *
 * query-named-block-nodes does not tell what a node's children are called,
 * so the graph comes from x-debug-query-block-graph, which every QEMU since
 * 4.0 has, storage daemons included.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bitmaps.h"
#include "block.h"
#include "cleanup.h"
#include "clock.h"
#include "json.h"
#include "log.h"
#include "peer.h"
#include "process.h"

#define OUR_PREFIX "nbdsync-"
#define CREATE_TIMEOUT_MS 30000
#define FILTERS_MAX 32          /* one upon the other: more is a loop */

void
block_our_name (const char *tag, const char *what, char ret[NODE_NAME_MAX])
{
  snprintf (ret, NODE_NAME_MAX, OUR_PREFIX "%.8s-%.10s", tag, what);
}

bool
block_is_our_name (const char *name)
{
  return strncmp (name, OUR_PREFIX, strlen (OUR_PREFIX)) == 0;
}

bool
block_is_our_scratch (const char *node)
{
  const char *what = strrchr (node, '-');

  return block_is_our_name (node) &&
    (strcmp (what, "-" BLOCK_SPOOL) == 0 || strcmp (what, "-" BLOCK_MAP) == 0);
}

int
graph_read (struct qmp *qmp, struct graph *ret)
{
  struct graph g = { NULL, NULL };

  if (qmp_execute (qmp, "query-named-block-nodes",
                   json_pack ("{sb}", "flat", 1), &g.nodes) == -1 ||
      qmp_execute (qmp, "x-debug-query-block-graph", NULL, &g.graph) == -1) {
    graph_free (&g);
    return -1;
  }
  if (!json_is_array (g.nodes) ||
      !json_is_array (json_object_get (g.graph, "nodes")) ||
      !json_is_array (json_object_get (g.graph, "edges"))) {
    log_error ("%s: the block graph is not what it should be",
               qmp_name (qmp));
    graph_free (&g);
    errno = EBADMSG;
    return -1;
  }
  *ret = g;
  return 0;
}

void
graph_free (struct graph *g)
{
  json_decref (g->nodes);
  json_decref (g->graph);
  g->nodes = g->graph = NULL;
}

json_t *
graph_node (const struct graph *g, const char *name)
{
  json_t *node;
  size_t i;

  json_array_foreach (g->nodes, i, node) {
    const char *s = json_get_string (node, "node-name");

    if (s && strcmp (s, name) == 0)
      return node;
  }
  return NULL;
}

/* Numbers and names of the block drivers in the graph. */
static const char *
graph_name (const struct graph *g, uint64_t id)
{
  json_t *node;
  uint64_t n;
  size_t i;

  json_array_foreach (json_object_get (g->graph, "nodes"), i, node) {
    const char *type = json_get_string (node, "type");

    if (json_get_u64 (node, "id", &n) == 0 && n == id)
      return type && strcmp (type, "block-driver") == 0
        ? json_get_string (node, "name") : NULL;
  }
  return NULL;
}

/* Find an edge by one end and, unless it is NULL, its name; returns the
 * node at the other end.
 */
static const char *
graph_edge (const struct graph *g, const char *name, const char *edge,
            const char *near, const char *far)
{
  json_t *e;
  size_t i;

  json_array_foreach (json_object_get (g->graph, "edges"), i, e) {
    const char *label = json_get_string (e, "name");
    uint64_t near_id, far_id;
    const char *near_name, *far_name;

    if (!label || (edge && strcmp (label, edge) != 0) ||
        json_get_u64 (e, near, &near_id) == -1 ||
        json_get_u64 (e, far, &far_id) == -1)
      continue;
    near_name = graph_name (g, near_id);
    if (!near_name || strcmp (near_name, name) != 0)
      continue;
    far_name = graph_name (g, far_id);
    if (far_name)
      return far_name;
  }
  return NULL;
}

const char *
graph_child (const struct graph *g, const char *name, const char *edge)
{
  return graph_edge (g, name, edge, "parent", "child");
}

bool
graph_has_parent_node (const struct graph *g, const char *name)
{
  return graph_edge (g, name, NULL, "child", "parent") != NULL;
}

const char *
graph_skip_filters (const struct graph *g, const char *name)
{
  static const char *const filters[] = {
    "throttle", "copy-on-read", "copy-before-write", "preallocate",
    "compress", "blkdebug", "blklogwrites", "mirror_top", "commit_top",
    "backup-top", NULL
  };

  for (int n = 0; n < FILTERS_MAX; n++) {
    json_t *node = graph_node (g, name);
    const char *drv = json_get_string (node, "drv");
    const char *const *f = filters;
    const char *below;

    while (*f && drv && strcmp (drv, *f) != 0)
      f++;
    if (!drv || !*f)
      return name;
    below = graph_child (g, name, "file");
    if (!below)
      below = graph_child (g, name, "backing");
    if (!below)
      return name;
    name = below;
  }
  return name;
}

int
block_node_remove (struct qmp *qmp, const char *node)
{
  CLEANUP_JSON json_t *nodes = NULL;
  struct graph g = { NULL, NULL };

  if (qmp_execute (qmp, "query-named-block-nodes",
                   json_pack ("{sb}", "flat", 1), &nodes) == -1)
    return -1;
  g.nodes = nodes;
  if (!graph_node (&g, node))
    return 0;
  return qmp_execute (qmp, "blockdev-del",
                      json_pack ("{ss}", "node-name", node), NULL);
}

int
block_node_create (struct qmp *qmp, const char *node, const char *path,
                   uint64_t size)
{
  char bytes[32];
  const char *argv[] = { "qemu-img", "create", "-q", "-f", "qcow2", "--",
                         path, bytes, NULL };

  snprintf (bytes, sizeof bytes, "%" PRIu64, size);
  if (process_run (argv, CREATE_TIMEOUT_MS, NULL) == -1)
    return -1;
  if (peer_own (qmp, path) == 0 &&
      qmp_execute (qmp, "blockdev-add",
                   json_pack ("{ss, ss, s{ss, ss}}", "driver", "qcow2",
                              "node-name", node, "file", "driver", "file",
                              "filename", path), NULL) == 0)
    return 0;
  int saved = errno;
  unlink (path);
  errno = saved;
  return -1;
}

int
block_map_merge (struct qmp *qmp, const char *node, const char *name,
                 uint64_t granularity, const char *from_node,
                 const char *from)
{
  if (qmp_execute (qmp, "block-dirty-bitmap-add",
                   json_pack ("{ss, ss, sI, sb, sb}", "node", node,
                              "name", name,
                              "granularity", (json_int_t) granularity,
                              "persistent", 1, "disabled", 1), NULL) == -1)
    return -1;
  return bitmap_merge (qmp, node, name, from_node, from);
}

int
block_job_find (struct qmp *qmp, const char *id, json_t **ret)
{
  CLEANUP_JSON json_t *jobs = NULL;
  json_t *job;
  size_t i;

  if (qmp_execute (qmp, "query-jobs", NULL, &jobs) == -1)
    return -1;
  json_array_foreach (jobs, i, job) {
    const char *s = json_get_string (job, "id");

    if (s && strcmp (s, id) == 0) {
      *ret = json_incref (job);
      return 0;
    }
  }
  *ret = NULL;
  return 0;
}

static bool
event_is_of_our_job (const json_t *event, void *opaque)
{
  const json_t *data = json_object_get (event, "data");
  const char *id = json_get_string (data, "id");

  if (!id)
    id = json_get_string (data, "device");
  return id && block_is_our_name (id);
}

int
block_job_pause (struct qmp *qmp, int timeout_ms)
{
  CLEANUP_JSON json_t *event =
    qmp_wait_event (qmp, event_is_of_our_job, NULL, timeout_ms);

  return event || errno == ETIMEDOUT ? 0 : -1;
}

int
block_job_remove (struct qmp *qmp, const char *id, int timeout_ms)
{
  int64_t deadline = clock_ms () + timeout_ms;
  bool cancelled = false;

  for (;;) {
    CLEANUP_JSON json_t *job = NULL;
    const char *status, *refusal;

    if (block_job_find (qmp, id, &job) == -1)
      return -1;
    if (!job)
      return 0;
    status = json_get_string (job, "status");
    if (status && strcmp (status, "concluded") == 0)
      return qmp_execute (qmp, "job-dismiss", json_pack ("{ss}", "id", id),
                          NULL);
    if (clock_left_ms (deadline) == 0) {
      log_error ("%s: job %s does not end", qmp_name (qmp), id);
      errno = ETIMEDOUT;
      return -1;
    }
    /* It may end by itself between the question and this. */
    if (!cancelled &&
        qmp_try (qmp, "job-cancel", json_pack ("{ss}", "id", id),
                 QMP_TIMEOUT_MS, NULL, &refusal) == -1 &&
        errno != EREMOTEIO)
      return -1;
    cancelled = true;
    if (block_job_pause (qmp, 100) == -1)
      return -1;
  }
}
