/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a sync tells its user: progress while it runs, a table or a JSON
 * object at its end.
 */
#ifndef NBDSYNC_REPORT_H
#define NBDSYNC_REPORT_H

#include <stdbool.h>
#include <jansson.h>

/* One line per disk on standard error, redrawn at each call.  'stats' is
 * the source agent's answer to "stats"; pass_ms is when the pass began.
 */
struct progress {
  bool on;
  int lines;                    /* drawn by the last call */
};
void progress_show (struct progress *p, const json_t *stats,
                    int64_t pass_ms);
void progress_clear (struct progress *p);

/* The result.  'disks' is the plan of the source agent (an array), into
 * which report_add_stats and report_add_seconds put what was done.
 */
void report_add_stats (json_t *disks, const json_t *stats);
void report_add_seconds (json_t *disks, const char *disk, double seconds);

/* The object of --json, a new reference; error NULL: it succeeded. */
json_t *report_json (const json_t *disks, uint64_t generation,
                     double seconds, unsigned hold_ms, const char *error);

/* The same for people, on standard output. */
void report_table (const json_t *report);

/* For --dry-run, on standard output. */
void report_plan (const json_t *plan);

#endif /* NBDSYNC_REPORT_H */
