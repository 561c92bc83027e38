/* SPDX-License-Identifier: BSD-3-Clause
 *
 * "nbdsync source": the agent where the disks are.
 *
 *   open    connect to the machine, list its disks
 *   plan    choose disks, decide full or incremental, spool or precopy
 *   since   of a disk planned by an older generation's bitmap: where the
 *           replica differs from that generation
 *   begin   take the chains' locks, settle what dead runs left, make room
 *   pass    start the next pass; its streams' sockets are the answer
 *   end     end the pass; an error voids it
 *   stats   what the streams have done so far
 *   commit  the replica has the new generation: forget the old bitmaps
 *   abort   the session failed; "keep" leaves its bitmaps to the next run
 *
 * One thread.  Everything hangs on one struct source; what runs or lies
 * around at the end of the agent is removed by end_session, except for
 * bitmaps, which only commit and abort remove.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "chain.h"
#include "cleanup.h"
#include "commands.h"
#include "differences.h"
#include "fault.h"
#include "json.h"
#include "log.h"
#include "runtime-dir.h"
#include "source.h"
#include "spool.h"

#define LOCK_WAIT_MS 10000      /* for an agent that is about to end */

static int
verb_open (void *opaque, const json_t *request, json_t **ret)
{
  struct source *s = opaque;
  const char *spec = json_get_string (request, "source");

  if (!spec || s->spec) {
    log_error ("open: no source, or open already");
    return -1;
  }
  if (source_open (s, spec) == -1)
    return -1;
  *ret = json_pack ("{s:s}", "host", s->host);
  return 0;
}

static int64_t
limit_of (const json_t *request, const char *key)
{
  uint64_t v;

  return json_get_u64 (request, key, &v) == 0 ? (int64_t) v : -1;
}

static char *
copy_string (const json_t *request, const char *key)
{
  const char *v = json_get_string (request, key);

  return v ? strdup (v) : NULL;
}

static int
verb_plan (void *opaque, const json_t *request, json_t **ret)
{
  struct source *s = opaque;

  if (!s->qmp || s->disks.len > 0) {
    log_error ("plan: not open, or planned already");
    return -1;
  }
  s->machine = copy_string (request, "name");
  s->scratch_dir = copy_string (request, "scratch");
  s->scratch_limit = limit_of (request, "scratch_limit");
  s->final_limit = limit_of (request, "final_limit");
  s->stream.level = copy_string (request, "level");
  json_get_u64 (request, "batch", &s->stream.batch);
  json_get_u64 (request, "buffer", &s->stream.buffer);
  if (!s->stream.level)
    s->stream.level = strdup ("auto");
  if (source_plan (s, request) == -1)
    return -1;
  FAULT_POINT ("source-planned");
  *ret = source_plan_json (s);
  return 0;
}

static int
verb_since (void *opaque, const json_t *request, json_t **ret)
{
  struct source *s = opaque;
  const char *name = json_get_string (request, "name");

  FOR_EACH_DISK (s, d)
    if (name && strcmp (d->name, name) == 0 && d->since > 0 && !s->target) {
      runs_reset (&d->differences);
      return differences_parse (json_object_get (request, "ranges"),
                                d->disk->size, &d->differences);
    }
  log_error ("since: no disk is planned so");
  return -1;
}

/* Remove every bitmap of this chain but 'keep' (which may be ""). */
static int
remove_bitmaps (struct source *s, struct source_disk *d, const char *keep)
{
  return chain_remove_bitmaps (s->qmp, d->disk->node, d->tag, keep, false);
}

static int
begin_disk (struct source *s, struct source_disk *d)
{
  bitmap_name (d->chain, s->target, 0, d->new_bitmap);
  strcpy (d->last_bitmap, d->base_bitmap);
  /* What has our tag now is a dead run's: we hold the lock. */
  d->lock_fd = chain_lock (d->tag, d->name, LOCK_WAIT_MS);
  if (d->lock_fd == -1)
    return -1;
  FAULT_POINT ("source-locked");
  if (!s->stopped && spool_settle (s->qmp, d->tag) == -1)
    return -1;
  FAULT_POINT ("source-settled");
  if (remove_bitmaps (s, d, d->good_bitmap) == -1)
    return -1;
  FAULT_POINT ("source-bitmaps-settled");
  if (scratch_create (s, d) == -1)
    return -1;
  FAULT_POINT ("source-scratch-made");
  return 0;
}

static int
verb_begin (void *opaque, const json_t *request, json_t **ret)
{
  struct source *s = opaque;
  const char *session = json_get_string (request, "session");

  if (s->disks.len == 0 || s->target || !session || strlen (session) != 16 ||
      json_get_u64 (request, "target", &s->target) == -1) {
    log_error ("begin: not planned, or begun already");
    return -1;
  }
  strcpy (s->session, session);
  s->started = time (NULL);
  FOR_EACH_DISK (s, d)
    if (begin_disk (s, d) == -1)
      return -1;
  return 0;
}

static int
verb_pass (void *opaque, const json_t *request, json_t **ret)
{
  struct source *s = opaque;

  if (!s->target || s->pass == PASS_FINAL) {
    log_error ("pass: not begun, or no pass is left");
    return -1;
  }
  return source_next_pass (s, ret);
}

static int
verb_end (void *opaque, const json_t *request, json_t **ret)
{
  struct source *s = opaque;

  return source_end_pass (s, ret);
}

static int
verb_stats (void *opaque, const json_t *request, json_t **ret)
{
  struct source *s = opaque;

  /* A spool has all it needs; a precopy still needs its machine. */
  if (s->pass == PASS_PRECOPY && s->qmp && !qmp_alive (s->qmp)) {
    log_error ("%s: the machine has ended during a precopy", s->spec);
    return -1;
  }
  *ret = source_stats (s);
  return 0;
}

/* Why a stream broke, as its nbdkit said; "" if it said nothing. */
static int
verb_reason (void *opaque, const json_t *request, json_t **ret)
{
  struct source *s = opaque;

  FOR_EACH_DISK (s, d) {
    CLEANUP_FREE char *reason = server_reason (&d->stream.server);
    if (reason) {
      *ret = json_pack ("{s:s}", "reason", reason);
      return 0;
    }
  }
  *ret = json_object ();
  return 0;
}

static int
forget_bitmaps (struct source *s, bool keep_new)
{
  int r = 0;

  if (s->stopped && !s->qmp && source_open_daemon (s) == -1)
    return -1;
  FOR_EACH_DISK (s, d)
    if (d->lock_fd >= 0 &&
        remove_bitmaps (s, d, keep_new ? d->new_bitmap : d->good_bitmap) == -1)
      r = -1;
  if (s->stopped && source_quit_daemon (s) == -1)
    r = -1;
  return r;
}

static int
verb_commit (void *opaque, const json_t *request, json_t **ret)
{
  struct source *s = opaque;

  if (s->pass != PASS_FINAL) {
    log_error ("commit: there was no final pass");
    return -1;
  }
  source_stop_streams (s);
  FAULT_POINT ("source-commit");
  /* What remains now is settled by the next run: the replica has it all. */
  if (!s->stopped && !qmp_alive (s->qmp))
    return 0;
  return forget_bitmaps (s, true);
}

static int
verb_abort (void *opaque, const json_t *request, json_t **ret)
{
  struct source *s = opaque;
  bool keep = true;

  source_stop_streams (s);
  FAULT_POINT ("source-abort");
  json_get_bool (request, "keep", &keep);
  if (keep || !s->target || (!s->stopped && !qmp_alive (s->qmp)))
    return 0;
  return forget_bitmaps (s, false);
}

static void
end_session (struct source *s)
{
  source_stop_streams (s);
  FOR_EACH_DISK (s, d) {
    scratch_remove (d);
    runs_reset (&d->differences);
    if (d->lock_fd >= 0)
      close (d->lock_fd);
  }
  source_disks_reset (&s->disks);
  json_decref (s->skipped);
  source_close (s);
  free (s->machine);
  free (s->scratch_dir);
  free ((char *) s->stream.level);
  if (s->dir)
    runtime_dir_remove (s->dir);
  free (s->dir);
  free (s->host);
}

int
command_source (int argc, char *argv[])
{
  static const struct agent_verb verbs[] = {
    { "open", verb_open }, { "plan", verb_plan },
    { "since", verb_since }, { "begin", verb_begin },
    { "pass", verb_pass }, { "end", verb_end }, { "stats", verb_stats },
    { "reason", verb_reason }, { "commit", verb_commit },
    { "abort", verb_abort }, { NULL, NULL },
  };
  struct source s = { 0 };
  char host[256] = "";

  if (no_arguments (argc, argv) == -1)
    return EXIT_USAGE;
  gethostname (host, sizeof host - 1);
  s.host = strdup (host);
  s.dir = runtime_dir_create ();
  if (!s.dir || !s.host)
    return EXIT_FAILURE;
  agent_serve (&(struct agent_server) {
      .role = "source", .verbs = verbs, .opaque = &s });
  end_session (&s);
  return 0;
}
