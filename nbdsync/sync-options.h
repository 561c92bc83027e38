/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The arguments of "nbdsync sync".
 */
#ifndef NBDSYNC_SYNC_OPTIONS_H
#define NBDSYNC_SYNC_OPTIONS_H

#include <stdbool.h>
#include <jansson.h>

#include "transport.h"

struct sync_options {
  const char *source_text, *target_text; /* as given; not owned */
  char *source;                 /* "qmp:..." or "image:..." alone; owned */
  json_t *select;               /* array of "NODE" or "NODE=NAME"; owned */
  struct place source_place;    /* here */
  struct place target;          /* owned */

  bool full, allow_shrink, dry_run, json, progress;
  char *scratch;                /* absolute; owned, or NULL */
  const char *level, *name, *rsh; /* not owned; name may be NULL */
  json_t *numbers;              /* scratch_limit, batch ... that were given,
                                   by the names of the agents; owned */
  long connections, stall_seconds;
};

/* -1 with a message: the exit status is then in *ret_status. */
int sync_options_parse (int argc, char *argv[], struct sync_options *ret,
                        int *ret_status);
void sync_options_reset (struct sync_options *o);

/* "qmp:SOCKET,disk=..." taken apart into *ret_source and *ret_select, new
 * values for the caller.  -1 with a message.
 */
int source_parse (const char *text, char **ret_source, json_t **ret_select);

#endif /* NBDSYNC_SYNC_OPTIONS_H */
