/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A thread that writes the statistics each second, to a temporary file
 * that is renamed, so that a reader always finds one whole object.  It is
 * not synced: it means nothing after a crash.  A write that fails is
 * reported once; the copy goes on.
 *
 * Locks: 'writing' is held for the whole of a write, so that the writes of
 * the thread and of a connection that ends do not mix; 'lock' guards
 * 'stop'.  Order: none is taken with the other held; the pipeline's lock
 * is taken inside 'writing'.  Thread: from stats_start to stats_stop.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "cleanup.h"
#include "json.h"
#include "log.h"
#include "stats.h"

struct stats {
  char *path, *tmp_path;
  struct pipeline *pipeline;
  uint64_t planned_bytes;
  pthread_t thread;
  pthread_mutex_t writing;
  bool failed;                  /* guarded by writing */
  pthread_mutex_t lock;
  pthread_cond_t cond;
  bool stop;                    /* guarded by lock */
};

static json_t *
stats_encode (const struct pipeline_stats *s, uint64_t planned_bytes)
{
  return json_pack ("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I,"
                    " s:I, s:I, s:I, s:i}",
                    "frames", (json_int_t) s->frames,
                    "frames_built", (json_int_t) s->queue.frames_built,
                    "planned_bytes", (json_int_t) planned_bytes,
                    "read_bytes", (json_int_t) s->read_bytes,
                    "zero_bytes", (json_int_t) s->queue.zero_bytes,
                    "data_bytes", (json_int_t) s->queue.data_bytes,
                    "packed_bytes", (json_int_t) s->queue.packed_bytes,
                    "sent_bytes", (json_int_t) s->queue.sent_bytes,
                    "frames_sent", (json_int_t) s->queue.frames_sent,
                    "disk_bytes_sent",
                    (json_int_t) s->queue.disk_bytes_sent,
                    "queue_bytes", (json_int_t) s->queue.bytes,
                    "queue_frames", (json_int_t) s->queue_frames,
                    "reader_waits", (json_int_t) s->reader_waits,
                    "worker_waits", (json_int_t) s->worker_waits,
                    "level", s->level);
}

static int
write_file (struct stats *stats)
{
  struct pipeline_stats s;
  CLEANUP_JSON json_t *json = NULL;
  FILE *fp;
  int r;

  pipeline_get_stats (stats->pipeline, &s);
  json = stats_encode (&s, stats->planned_bytes);
  if (!json) {
    errno = ENOMEM;
    return -1;
  }
  fp = fopen (stats->tmp_path, "we");
  if (!fp)
    return -1;
  r = json_dumpf (json, fp, JSON_INDENT (2));
  if (putc ('\n', fp) == EOF)
    r = -1;
  if (fclose (fp) == EOF || r == -1)
    return -1;
  return rename (stats->tmp_path, stats->path);
}

static int
stats_try_write (struct stats *stats)
{
  LOCK_FOR_SCOPE (&stats->writing);

  if (write_file (stats) == 0)
    return 0;
  if (!stats->failed)
    log_error ("delta-stats: %s: cannot write: %m", stats->path);
  stats->failed = true;
  return -1;
}

void
stats_write (struct stats *stats)
{
  if (stats)
    stats_try_write (stats);
}

/* Sleep until it is time for the next write; false when it is to end. */
static bool
wait_a_second (struct stats *stats)
{
  struct timespec until;
  LOCK_FOR_SCOPE (&stats->lock);

  clock_gettime (CLOCK_MONOTONIC, &until);
  until.tv_sec++;
  while (!stats->stop)
    if (pthread_cond_timedwait (&stats->cond, &stats->lock, &until) ==
        ETIMEDOUT)
      return true;
  return false;
}

static void *
stats_thread (void *arg)
{
  struct stats *stats = arg;

  while (wait_a_second (stats))
    stats_write (stats);
  return NULL;
}

static int
start_thread (struct stats *stats)
{
  sigset_t all, old;
  int r;

  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &old);
  r = pthread_create (&stats->thread, NULL, stats_thread, stats);
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  if (r != 0) {
    errno = r;
    log_error ("delta-stats: %s: no thread: %m", stats->path);
    return -1;
  }
  return 0;
}

static void
stats_free (struct stats *stats)
{
  pthread_cond_destroy (&stats->cond);
  pthread_mutex_destroy (&stats->lock);
  pthread_mutex_destroy (&stats->writing);
  free (stats->path);
  free (stats->tmp_path);
  free (stats);
}

struct stats *
stats_start (const char *path, struct pipeline *pipeline,
             uint64_t planned_bytes)
{
  struct stats *stats = calloc (1, sizeof *stats);
  pthread_condattr_t attr;

  if (!stats) {
    log_error ("delta-stats: %s: out of memory", path);
    return NULL;
  }
  stats->pipeline = pipeline;
  stats->planned_bytes = planned_bytes;
  pthread_mutex_init (&stats->writing, NULL);
  pthread_mutex_init (&stats->lock, NULL);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&stats->cond, &attr);
  pthread_condattr_destroy (&attr);
  stats->path = strdup (path);
  if (!stats->path || asprintf (&stats->tmp_path, "%s.tmp", path) == -1) {
    stats->tmp_path = NULL;
    log_error ("delta-stats: %s: out of memory", path);
  }
  else if (stats_try_write (stats) == 0 && start_thread (stats) == 0)
    return stats;
  stats_free (stats);
  return NULL;
}

void
stats_stop (struct stats *stats)
{
  if (!stats)
    return;
  {
    LOCK_FOR_SCOPE (&stats->lock);
    stats->stop = true;
    pthread_cond_broadcast (&stats->cond);
  }
  pthread_join (stats->thread, NULL);
  stats_write (stats);
  stats_free (stats);
}
