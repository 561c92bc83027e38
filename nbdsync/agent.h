/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Agents: "nbdsync source" and "nbdsync receive", which run where the disks
 * are and speak JSON lines on standard input and output.
 *
 *   agent:        {"nbdsync": "source", "version": "0.1.0",
 *                  "protocol": 1, "format": 1}          first line
 *   coordinator:  {"id": 1, "do": "open", ...}
 *   agent:        {"note": "..."}                       any number, for -v
 *   agent:        {"id": 1, "ok": {...}}  or  {"id": 1, "error": "...",
 *                  "busy": true if somebody else holds the lock}
 *
 * An agent whose standard input ends has lost its coordinator: it ends
 * what it started and exits.
 */
#ifndef NBDSYNC_AGENT_H
#define NBDSYNC_AGENT_H

#include <stdbool.h>
#include <jansson.h>

#include "lines.h"
#include "process.h"
#include "transport.h"

#define AGENT_PROTOCOL 1
#define AGENT_REPLY_MS 60000    /* for what is quick */

/* The coordinator's side. */

struct agent {
  const char *role;             /* "source" or "receive"; not owned */
  struct transport transport;
  struct process process;
  struct lines lines;
  int in, out;                  /* its standard input and output; owned */
  uint64_t last_id;
  bool busy;                    /* its last error was a held lock */
  int interrupt_fd;             /* see agent_start */
};

/* Start an agent with these arguments (role first, NULL at the end) at
 * a->transport's place and read its first line.  While the coordinator
 * waits for it, a readable interrupt_fd breaks the wait off (-1: none).
 * -1 with a message, which for another version of nbdsync names both.
 */
int agent_start (struct agent *a, const char *const *args,
                 int interrupt_fd);

/* Have it do something; args (an object or NULL) is consumed.  Returns 0
 * and a new reference to the answer, or -1 with a message; errno is EBUSY
 * if the agent says so, EINTR if interrupted.
 */
int agent_call (struct agent *a, const char *verb, json_t *args,
                int timeout_ms, json_t **ret);

/* Close its standard input and wait for it, then end it. */
void agent_stop (struct agent *a);

/* The agent's side. */

struct agent_verb {
  const char *name;
  /* Returns 0 and a new reference in *ret (or leaves it NULL), or -1 with
   * a message; errno EBUSY is passed on.
   */
  int (*run) (void *opaque, const json_t *args, json_t **ret);
};

/* Serve until standard input ends or a signal asks us to end.  Messages go
 * to the coordinator from here on.
 */
struct agent_server {
  const char *role;
  const struct agent_verb *verbs; /* name NULL at the end */
  void *opaque;
};
void agent_serve (const struct agent_server *server);

/* For verbs that take long: should the agent end, since a signal says so or
 * its coordinator has gone?
 */
bool agent_is_over (void);

/* Take the first error that the running verb has reported, which is then
 * not an error of the request; NULL if there was none.  The caller frees it.
 */
char *agent_take_error (void);

#endif /* NBDSYNC_AGENT_H */
