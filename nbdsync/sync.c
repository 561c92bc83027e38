/* SPDX-License-Identifier: BSD-3-Clause
 *
 * "nbdsync sync": the coordinator.
 *
 * It starts the two agents, lets the source plan by what the replica has,
 * opens a session at the replica, runs the passes (nbdcopy between the
 * agents' sockets), and lets the source forget its old bitmaps only when
 * the replica has said, durably, that it has the new generation.
 *
 * One thread.  SIGINT, SIGTERM and SIGHUP are blocked and come by a
 * descriptor, which breaks off every wait; the session is then ended as
 * after any other failure.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent.h"
#include "cleanup.h"
#include "clock.h"
#include "commands.h"
#include "copy.h"
#include "fault.h"
#include "json.h"
#include "log.h"
#include "report.h"
#include "runtime-dir.h"
#include "session-record.h"
#include "sync-options.h"

#define SPOOL_MS (2 * 3600 * 1000) /* a spool or maps of a large disk */
#define SYNC_STALL_FACTOR 10    /* for the receiver's sync to disk */
#define PING_MS 5000

struct sync {
  struct sync_options o;
  struct agent source, receive;
  char *dir;                    /* private directory for forwarded sockets */
  int interrupt_fd;
  int64_t started_ms;

  json_t *replica;              /* the receiver's status at the start */
  json_t *plan;
  char session[17];
  char *receiver_socket;        /* here */
  uint64_t target;              /* 0: no session yet */
  bool final;                   /* the final pass has begun */
  unsigned hold_ms;

  struct progress progress;
  int64_t pass_ms;              /* when the pass began */
  uint64_t sent;                /* wire bytes, and when that last changed */
  int64_t moved_ms;
  bool source_lost, receive_lost; /* the agent does not answer any more */
};

/* A call in the session: notes when an agent is lost, so that ending the
 * session does not wait for it again.
 */
static int
call (struct sync *s, struct agent *a, const char *verb, json_t *args,
      int timeout_ms, json_t **ret)
{
  int r = agent_call (a, verb, args, timeout_ms, ret);

  if (r == -1 && errno != EIO && errno != EBUSY && errno != EINTR) {
    if (a == &s->source)
      s->source_lost = true;
    else
      s->receive_lost = true;
  }
  return r;
}

static int
start_agents (struct sync *s)
{
  const char *receive[] = { "receive", "--", s->o.target.rest, NULL };
  const char *source[] = { "source", NULL };

  s->source.role = "source";
  s->source.transport = (struct transport) {
    .place = &s->o.source_place, .rsh = s->o.rsh, .dir = s->dir };
  s->receive.role = "receive";
  s->receive.transport = (struct transport) {
    .place = &s->o.target, .rsh = s->o.rsh, .dir = s->dir };
  if (agent_start (&s->source, source, s->interrupt_fd) == -1)
    return -1;
  return agent_start (&s->receive, receive, s->interrupt_fd);
}

/* Images that were changed or lost behind our back cannot be built on. */
static int
check_replica (struct sync *s)
{
  json_t *d;
  size_t i;

  json_array_foreach (json_object_get (s->replica, "disks"), i, d) {
    const char *problem = json_get_string (d, "problem");

    if (problem && !s->o.full) {
      log_error ("%s (\"sync --full\" makes a new generation that does not "
                 "need it)", problem);
      return -1;
    }
  }
  return 0;
}

static int
make_plan (struct sync *s)
{
  json_t *request;

  if (call (s, &s->source, "open",
            json_pack ("{s:s}", "source", s->o.source), AGENT_REPLY_MS,
            NULL) == -1 ||
      call (s, &s->receive, "status",
            json_pack ("{s:b}", "write", !s->o.dry_run), AGENT_REPLY_MS,
            &s->replica) == -1)
    return -1;
  if (check_replica (s) == -1)
    return -1;
  request = json_pack ("{s:O, s:O, s:b, s:b, s:s, s:s*, s:s*}",
                       "replica", s->replica, "select", s->o.select,
                       "full", s->o.full,
                       "allow_shrink", s->o.allow_shrink,
                       "level", s->o.level,
                       "scratch", s->o.scratch, "name", s->o.name);
  if (!request || json_object_update (request, s->o.numbers) == -1) {
    log_error ("out of memory");
    return -1;
  }
  FAULT_POINT ("sync-status");
  return call (s, &s->source, "plan", request, AGENT_REPLY_MS, &s->plan);
}

/* A disk planned by a bitmap of an older generation needs to know what the
 * replica has over that.
 */
static int
send_differences (struct sync *s)
{
  json_t *disks = json_object_get (s->plan, "disks"), *d;
  size_t i;

  json_array_foreach (disks, i, d) {
    CLEANUP_JSON json_t *found = NULL;
    json_t *name = json_object_get (d, "name");
    json_t *since = json_object_get (d, "since");

    if (!since)
      continue;
    if (call (s, &s->receive, "differences",
              json_pack ("{s:O, s:O}", "disk", name, "since", since),
              SPOOL_MS, &found) == -1 ||
        call (s, &s->source, "since",
              json_pack ("{s:O, s:O*}", "name", name, "ranges",
                         json_object_get (found, "ranges")),
              AGENT_REPLY_MS, NULL) == -1)
      return -1;
    FAULT_POINT ("sync-since");
  }
  return 0;
}

/* Disks of the replica that the new generation will not have. */
static void
note_gone (struct sync *s)
{
  json_t *disks = json_object_get (s->plan, "disks"), *d, *other;
  size_t i, j;

  json_array_foreach (json_object_get (s->replica, "disks"), i, d) {
    const char *name = json_get_string (d, "name");
    bool found = false;

    json_array_foreach (disks, j, other)
      found |= json_equal (json_object_get (d, "name"),
                           json_object_get (other, "name"));
    if (!found && name)
      fprintf (stderr, "nbdsync: %s: the replica has it, the source not any "
               "more: the new generation is without it\n", name);
  }
}

static json_t *
planned_disks (const struct sync *s)
{
  return json_object_get (s->plan, "disks");
}

static bool
nothing_to_do (const struct sync *s)
{
  json_t *disks = planned_disks (s), *d, *replica_disks;
  size_t i;

  json_array_foreach (disks, i, d) {
    const char *kind = json_get_string (d, "kind");
    if (!kind || strcmp (kind, "unchanged") != 0)
      return false;
  }
  /* A disk that is gone from the machine makes a new generation, too. */
  replica_disks = json_object_get (s->replica, "disks");
  return json_array_size (disks) == json_array_size (replica_disks);
}

static int
open_session (struct sync *s)
{
  CLEANUP_JSON json_t *opened = NULL;
  json_t *request, *first = json_array_get (planned_disks (s), 0);
  const char *socket;
  uint64_t id;

  if (random_u64 (&id) == -1)
    return -1;
  snprintf (s->session, sizeof s->session, "%016" PRIx64, id);
  request = json_pack ("{s:s, s:O}", "session", s->session,
                       "disk", json_object_get (first, "name"));
  json_object_set (request, "buffer",
                   json_object_get (s->o.numbers, "buffer"));
  json_object_set (request, "rate",
                   json_object_get (s->o.numbers, "rate"));
  if (call (s, &s->receive, "open", request, AGENT_REPLY_MS, &opened) == -1)
    return -1;
  socket = json_get_string (opened, "socket");
  if (!socket || json_get_u64 (opened, "target", &s->target) == -1) {
    log_error ("receive: an answer that makes no sense");
    return -1;
  }
  s->receiver_socket = transport_socket (&s->receive.transport, socket,
                                         "receive.sock");
  if (!s->receiver_socket)
    return -1;
  FAULT_POINT ("sync-opened");
  return call (s, &s->source, "begin",
               json_pack ("{s:s, s:I}", "session", s->session,
                          "target", (json_int_t) s->target),
               AGENT_REPLY_MS, NULL);
}

/* Put what the streams have done into the plan.  -1 if the source does not
 * know, or says that the pass is void.
 */
static int
update_stats (struct sync *s, json_t **ret)
{
  CLEANUP_JSON json_t *stats = NULL;

  if (s->source_lost ||
      call (s, &s->source, "stats", NULL, AGENT_REPLY_MS, &stats) == -1)
    return -1;
  report_add_stats (planned_disks (s), stats);
  if (ret)
    *ret = json_incref (stats);
  return 0;
}

/* Do bytes still move?  When all was sent, the receiver syncs its disk,
 * which may take much longer than a stall.
 */
static int
check_stall (struct sync *s, const json_t *stats)
{
  uint64_t sent = 0, left = 0, v, frames;
  int64_t now = clock_ms (), limit = s->o.stall_seconds * INT64_C (1000);
  json_t *d;
  size_t i;

  json_array_foreach (json_object_get (stats, "disks"), i, d) {
    if (json_get_u64 (d, "wire_bytes", &v) == 0)
      sent += v;
    if (json_get_u64 (d, "pass_frames", &frames) == 0 &&
        json_get_u64 (d, "pass_frames_sent", &v) == 0)
      left += frames - v;
  }
  if (sent != s->sent || s->moved_ms < s->pass_ms) {
    s->sent = sent;
    s->moved_ms = now;
  }
  if (now - s->moved_ms < limit)
    return 0;
  /* All is on its way or there: is the other end alive, and syncing? */
  if (left == 0) {
    if (call (s, &s->receive, "reason", NULL, PING_MS, NULL) == -1)
      return -1;
    limit *= SYNC_STALL_FACTOR;
    if (now - s->moved_ms < limit)
      return 0;
  }
  log_error ("nothing has moved for %d s (--stall-timeout): is the link or "
             "a host hanging?", (int) (limit / 1000));
  return -1;
}

static int
tick (void *opaque)
{
  struct sync *s = opaque;
  CLEANUP_JSON json_t *stats = NULL;

  if (update_stats (s, &stats) == -1)
    return -1;
  progress_show (&s->progress, stats, s->pass_ms);
  return check_stall (s, stats);
}

/* Why did a copy fail?  The ends know better than nbdcopy. */
static void
explain (struct sync *s, const char *nbdcopy_says)
{
  struct agent *const ends[] = { &s->receive, &s->source };

  for (size_t i = 0; i < 2; i++) {
    CLEANUP_JSON json_t *answer = NULL;
    const char *reason;

    /* An end that is lost has said so, and is the reason. */
    if (call (s, ends[i], "reason", NULL, AGENT_REPLY_MS, &answer) == -1)
      return;
    reason = json_get_string (answer, "reason");
    if (reason) {
      log_error ("%s: %s", i == 0 ? s->o.target_text : s->o.source_text,
                 reason);
      return;
    }
  }
  log_error ("nbdcopy: %s", nbdcopy_says);
}

static int
copy_pass (struct sync *s, const json_t *pass)
{
  CLEANUP_FREE char *reason = NULL;
  copies all = { 0 };
  json_t *d;
  size_t i;
  int r = 0;

  json_array_foreach (json_object_get (pass, "disks"), i, d) {
    const char *name = json_get_string (d, "name");
    const char *socket = json_get_string (d, "socket");

    if (!name || !socket) {
      log_error ("source: an answer that makes no sense");
      r = -1;
      break;
    }
    if (copies_add (&all, name, socket, s->receiver_socket) == -1) {
      r = -1;
      break;
    }
  }
  if (r == 0) {
    r = copies_run (&all, s->o.connections, s->interrupt_fd, tick, s,
                    &reason);
    int error = errno;
    progress_clear (&s->progress);
    if (r == 0 || reason || error == EINTR)
      update_stats (s, NULL);
    if (r == -1 && error == EINTR)
      log_error ("interrupted");
    else if (r == -1 && reason)
      explain (s, reason);
  }
  for (i = 0; i < all.len; i++)
    if (all.ptr[i].ended_ms)
      report_add_seconds (planned_disks (s), all.ptr[i].disk,
                          (all.ptr[i].ended_ms - all.ptr[i].started_ms) /
                          1000.0);
  copies_free (&all);
  return r;
}

static void
note_hold (struct sync *s, const json_t *answer)
{
  uint64_t ms;

  if (json_get_u64 (answer, "hold_ms", &ms) == 0 && ms > s->hold_ms)
    s->hold_ms = ms;
}

static int
run_passes (struct sync *s)
{
  while (!s->final) {
    CLEANUP_JSON json_t *pass = NULL, *ended = NULL;

    if (call (s, &s->source, "pass", NULL, SPOOL_MS, &pass) == -1)
      return -1;
    note_hold (s, pass);
    if (json_get_bool (pass, "final", &s->final) == -1) {
      log_error ("source: an answer that makes no sense");
      return -1;
    }
    log_debug ("%s pass", s->final ? "final" : "precopy");
    s->pass_ms = clock_ms ();
    FAULT_POINT ("sync-pass");
    if (copy_pass (s, pass) == -1)
      return -1;
    FAULT_POINT ("sync-copied");
    if (call (s, &s->source, "end", NULL, AGENT_REPLY_MS, &ended) == -1)
      return -1;
    note_hold (s, ended);
    FAULT_POINT ("sync-pass-ended");
    update_stats (s, NULL);
  }
  return 0;
}

/* Is the new generation there, and ours? */
static bool
has_target (const struct sync *s, const json_t *replica)
{
  const char *session = json_get_string (replica, "session");
  uint64_t generation = 0;

  json_get_u64 (replica, "generation", &generation);
  return generation == s->target && session &&
    strcmp (session, s->session) == 0;
}

static int
commit (struct sync *s)
{
  CLEANUP_JSON json_t *replica = NULL;

  if (call (s, &s->receive, "generation", NULL, AGENT_REPLY_MS,
            &replica) == -1)
    return -1;
  if (!has_target (s, replica)) {
    log_error ("%s: the replica does not have generation %" PRIu64
               " though all was sent: run again", s->o.target.rest,
               s->target);
    return -1;
  }
  FAULT_POINT ("sync-generation");
  /* The replica is right; what this leaves undone the next run does. */
  if (call (s, &s->source, "commit", NULL, AGENT_REPLY_MS, NULL) == -1)
    log_debug ("the next run will remove the old bitmaps");
  FAULT_POINT ("sync-committed");
  return 0;
}

/* The session failed.  Unless the replica may have committed, the source
 * is brought back to its state before.
 */
static void
give_up (struct sync *s)
{
  CLEANUP_JSON json_t *replica = NULL;
  bool keep = s->final;

  /* No wait of what follows is broken off by the same signal again. */
  s->source.interrupt_fd = s->receive.interrupt_fd = -1;
  FAULT_POINT ("sync-give-up");
  if (s->target && !s->receive_lost &&
      call (s, &s->receive, "close", NULL, AGENT_REPLY_MS, &replica) == 0)
    keep = has_target (s, replica);
  FAULT_POINT ("sync-closed");
  if (!s->source_lost)
    call (s, &s->source, "abort", json_pack ("{s:b}", "keep", keep),
          AGENT_REPLY_MS, NULL);
}

static int
run (struct sync *s)
{
  if (start_agents (s) == -1 || make_plan (s) == -1)
    return -1;
  log_debug ("%s", json_get_string (s->plan, "way"));
  note_gone (s);
  FAULT_POINT ("sync-planned");
  if (s->o.dry_run)
    return 0;
  if (nothing_to_do (s)) {
    json_get_u64 (s->replica, "generation", &s->target);
    return call (s, &s->receive, "checked", NULL, AGENT_REPLY_MS, NULL);
  }
  if (send_differences (s) == -1)
    return -1;
  if (open_session (s) == -1 || run_passes (s) == -1 || commit (s) == -1) {
    give_up (s);
    return -1;
  }
  return 0;
}

/* -1 if standard output does not take it. */
static int
sync_report (struct sync *s, int failed)
{
  CLEANUP_JSON json_t *report = NULL;
  uint64_t generation = s->target;

  if (s->o.dry_run) {
    if (!failed && s->o.json)
      json_dumpf (s->plan, stdout,
                  JSON_INDENT (2) | JSON_REAL_PRECISION (6));
    else if (!failed)
      report_plan (s->plan);
  }
  else if (s->plan) {
    if (failed)
      json_get_u64 (s->replica, "generation", &generation);
    report = report_json (planned_disks (s), generation,
                          (clock_ms () - s->started_ms) / 1000.0,
                          s->hold_ms, failed ? first_error () : NULL);
    if (s->o.json)
      json_dumpf (report, stdout,
                  JSON_INDENT (2) | JSON_REAL_PRECISION (6));
    else if (!failed)
      report_table (report);
  }
  if (s->o.json && s->plan)
    putchar ('\n');
  if (fflush (stdout) == 0 && !ferror (stdout))
    return 0;
  log_error ("standard output: %m");
  return -1;
}

static int
block_signals (void)
{
  sigset_t set;

  sigemptyset (&set);
  sigaddset (&set, SIGINT);
  sigaddset (&set, SIGTERM);
  sigaddset (&set, SIGHUP);
  sigprocmask (SIG_BLOCK, &set, NULL);
  return signalfd (-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int
command_sync (int argc, char *argv[])
{
  struct sync s = { .started_ms = clock_ms () };
  int status, failed;
  bool busy;

  if (sync_options_parse (argc, argv, &s.o, &status) == -1)
    return status;
  s.progress.on = s.o.progress;
  s.interrupt_fd = block_signals ();
  s.source.in = s.source.out = s.receive.in = s.receive.out = -1;
  s.dir = runtime_dir_create ();
  failed = s.interrupt_fd == -1 || !s.dir || run (&s) == -1;
  busy = s.source.busy || s.receive.busy;

  FAULT_POINT ("sync-end");
  agent_stop (&s.source);
  FAULT_POINT ("sync-source-stopped");
  agent_stop (&s.receive);
  if (sync_report (&s, failed) == -1)
    failed = true;
  if (s.dir)
    runtime_dir_remove (s.dir);
  free (s.dir);
  free (s.receiver_socket);
  json_decref (s.plan);
  json_decref (s.replica);
  sync_options_reset (&s.o);
  if (s.interrupt_fd >= 0)
    close (s.interrupt_fd);
  return !failed ? EXIT_SUCCESS : busy ? EXIT_BUSY : EXIT_FAILURE;
}
