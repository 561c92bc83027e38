/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Nodes, the block graph and jobs of a QEMU: what the other parts of the
 * QMP client share.
 */
#ifndef NBDSYNC_BLOCK_H
#define NBDSYNC_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "qmp.h"

#define NODE_NAME_MAX 32        /* of QEMU, with the NUL */

#define BLOCK_SPOOL "spool"
#define BLOCK_MAP "map"
#define BLOCK_FLUSH "flush"

/* Names of what is ours in QEMU, for node, job, export: nbdsync-TAG-WHAT. */
void block_our_name (const char *tag, const char *what,
                     char ret[NODE_NAME_MAX]);
bool block_is_our_name (const char *name);

/* Is this node a spool or map of ours, or of a dead run? */
bool block_is_our_scratch (const char *node);

/* A snapshot of all nodes and how they hang together. */
struct graph {
  json_t *nodes;                /* query-named-block-nodes, flat */
  json_t *graph;                /* x-debug-query-block-graph */
};
int graph_read (struct qmp *qmp, struct graph *ret);
void graph_free (struct graph *g);

/* The BlockDeviceInfo of a node, owned by the graph; NULL if none. */
json_t *graph_node (const struct graph *g, const char *name);

/* The child that hangs at edge "file", "backing" ...; NULL if none. */
const char *graph_child (const struct graph *g, const char *name,
                         const char *edge);

/* Is it a child of another node? */
bool graph_has_parent_node (const struct graph *g, const char *name);

/* Down through filters (throttle, copy-on-read ...) to what they filter. */
const char *graph_skip_filters (const struct graph *g, const char *name);

/* Delete a node, if it is there. */
int block_node_remove (struct qmp *qmp, const char *node);

/* Make an empty qcow2 file (path is absolute) and add it as a node; there
 * is no file if it fails.
 */
int block_node_create (struct qmp *qmp, const char *node, const char *path,
                       uint64_t size);

/* Add a disabled persistent bitmap to the node and merge another one into
 * it.
 */
int block_map_merge (struct qmp *qmp, const char *node, const char *name,
                     uint64_t granularity, const char *from_node,
                     const char *from);

/* The job of query-jobs with this id, in *ret a new reference, or NULL
 * there if there is none.
 */
int block_job_find (struct qmp *qmp, const char *id, json_t **ret);

/* Cancel the job if it is there, wait for its end and dismiss it. */
int block_job_remove (struct qmp *qmp, const char *id, int timeout_ms);

/* Wait up to timeout_ms for something to happen to a job whose id has our
 * prefix; consumes its events.  -1 if the connection is gone.
 */
int block_job_pause (struct qmp *qmp, int timeout_ms);

#endif /* NBDSYNC_BLOCK_H */
