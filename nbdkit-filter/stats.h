/* SPDX-License-Identifier: BSD-3-Clause
 *
 * delta-stats=FILE: numbers for whoever watches, as JSON.
 */
#ifndef NBDSYNC_STATS_H
#define NBDSYNC_STATS_H

#include "pipeline.h"

struct stats;

/* Write the file now and each second from now on.  NULL with a message if
 * it cannot be written.
 */
struct stats *stats_start (const char *path, struct pipeline *pipeline,
                           uint64_t planned_bytes);

/* Write it now, exact.  Any thread; nothing happens if stats is NULL. */
void stats_write (struct stats *stats);

/* Write it for the last time and end.  Before the pipeline is freed. */
void stats_stop (struct stats *stats);

#endif /* NBDSYNC_STATS_H */
