/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Workers take what the queue says is to be built next, build it and enter
 * it; readers wait for the frame that they want.  What is built when, and
 * what is dropped when, is the queue's decision (queue.c).
 *
 * Memory.  delta-buffer is split into what the builders take, one for each
 * worker, and the queue.  There are as many workers as fit the half of it.
 *
 * Locks: one mutex, p->lock, for the members that are marked.  It is not
 * held while reading, compressing, copying or logging.  'work' is for
 * workers (a frame is wanted, there may be room), 'ready' for readers (a
 * frame is ready or has failed).  It is the only lock, so there is no
 * order.  Threads: the workers belong to the pipeline, from the first frame
 * that is wanted until pipeline_stop.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "cleanup.h"
#include "log.h"
#include "pipeline.h"

#define QUIT_CHECK_MS 200
#define LEVEL_OF_AUTO 1

struct worker {
  struct pipeline *pipeline;
  struct builder *builder;
  pthread_t thread;
};

struct pipeline {
  struct pipeline_config config;
  const struct source *source;
  struct worker *workers;
  unsigned nr_workers;
  atomic_bool stop;

  pthread_mutex_t lock;
  pthread_cond_t work, ready;
  /* All below is guarded by lock. */
  struct queue queue;
  unsigned nr_started;          /* of the workers */
  uint64_t read_bytes;
  uint64_t reader_waits, worker_waits;
  int level;                    /* of the last frame */
};

/* The level for the next new frame.  Here it will be steered by who waits
 * for whom; until then auto is a fixed level.
 */
static int
choose_level (const struct pipeline_config *config)
{
  return config->level == LEVEL_AUTO ? LEVEL_OF_AUTO : config->level;
}

/* The level that takes most memory of those that may be chosen. */
static int
largest_level (const struct pipeline_config *config)
{
  return config->level == LEVEL_AUTO ? LEVEL_OF_AUTO : config->level;
}

int
pipeline_check (const struct pipeline_config *config, uint32_t batch_bytes)
{
  uint64_t need = builder_bytes (batch_bytes, largest_level (config)) +
    builder_frame_max (batch_bytes);

  if (config->buffer_bytes < need) {
    log_error ("delta-buffer: batches of %" PRIu32 " bytes at level %d need "
               "at least %" PRIu64 "M", batch_bytes, largest_level (config),
               (need + (1 << 20) - 1) >> 20);
    return -1;
  }
  return 0;
}

static unsigned
count_workers (const struct pipeline_config *config,
               const struct source *source)
{
  size_t each = builder_bytes (source->plan.batch_bytes,
                               largest_level (config));
  uint64_t n = config->buffer_bytes / 2 / each;

  if (n > config->threads)
    n = config->threads;
  if (n > source->plan.nr_batches)
    n = source->plan.nr_batches;
  return n > 0 ? n : 1;
}

static int
create_workers (struct pipeline *p)
{
  unsigned n = count_workers (&p->config, p->source);

  p->workers = calloc (n, sizeof *p->workers);
  if (!p->workers) {
    log_error ("threads: out of memory");
    return -1;
  }
  for (; p->nr_workers < n; p->nr_workers++) {
    struct worker *w = &p->workers[p->nr_workers];

    w->pipeline = p;
    w->builder = builder_create (p->source);
    if (!w->builder)
      return -1;
  }
  return 0;
}

struct pipeline *
pipeline_create (const struct pipeline_config *config,
                 const struct source *source)
{
  struct pipeline *p = calloc (1, sizeof *p);
  uint32_t batch_bytes = source->plan.batch_bytes;
  pthread_condattr_t monotonic;
  uint64_t room;

  if (!p) {
    log_error ("the queue of frames: out of memory");
    return NULL;
  }
  pthread_mutex_init (&p->lock, NULL);
  pthread_condattr_init (&monotonic);
  pthread_condattr_setclock (&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init (&p->work, &monotonic);
  pthread_cond_init (&p->ready, &monotonic);
  pthread_condattr_destroy (&monotonic);
  p->config = *config;
  p->source = source;
  if (create_workers (p) == -1) {
    pipeline_free (p);
    return NULL;
  }
  room = config->buffer_bytes -
    p->nr_workers * builder_bytes (batch_bytes, largest_level (config));
  if (queue_init (&p->queue, source->plan.nr_batches, room,
                  builder_frame_max (batch_bytes)) == -1) {
    log_error ("the queue of frames: out of memory");
    pipeline_free (p);
    return NULL;
  }
  p->queue.stats.packed_bytes = source->record_bytes;
  log_debug ("%u threads, %" PRIu64 " bytes for the queue", p->nr_workers,
             room);
  return p;
}

void
pipeline_stop (struct pipeline *p)
{
  unsigned n;

  atomic_store (&p->stop, true);
  {
    LOCK_FOR_SCOPE (&p->lock);
    n = p->nr_started;
    pthread_cond_broadcast (&p->work);
    pthread_cond_broadcast (&p->ready);
  }
  for (unsigned i = 0; i < n; i++)
    pthread_join (p->workers[i].thread, NULL);
}

void
pipeline_free (struct pipeline *p)
{
  if (!p)
    return;
  for (unsigned i = 0; i < p->nr_workers; i++)
    builder_free (p->workers[i].builder);
  free (p->workers);
  queue_reset (&p->queue);
  pthread_cond_destroy (&p->ready);
  pthread_cond_destroy (&p->work);
  pthread_mutex_destroy (&p->lock);
  free (p);
}

/* Wait for something to build; NULL when it is time to stop. */
static struct frame *
next_job_locked (struct pipeline *p)
{
  while (!atomic_load (&p->stop)) {
    struct frame *f = queue_next (&p->queue);

    if (f)
      return f;
    p->worker_waits++;
    pthread_cond_wait (&p->work, &p->lock);
  }
  return NULL;
}

/* Build frame k, known to be as 'was', into memory of its own. */
static int
build (struct pipeline *p, struct builder *b, uint64_t k, int level,
       const struct slot *was, struct built *ret, unsigned char **ret_data,
       uint64_t *read_bytes, int *err)
{
  if (builder_build (b, k, level, &p->stop, ret, read_bytes, err) == -1)
    return -1;
  if (was->built && was->length != ret->bytes) {
    log_error ("frame %" PRIu64 " was %" PRIu32 " bytes and is %zu now: the "
               "disk has changed since", k, was->length, ret->bytes);
    *err = EIO;
    return -1;
  }
  *ret_data = frame_data_alloc (ret->bytes);
  if (!*ret_data) {
    log_error ("frame %" PRIu64 ": out of memory", k);
    *err = ENOMEM;
    return -1;
  }
  memcpy (*ret_data, ret->frame, ret->bytes);
  return 0;
}

static void *
worker_thread (void *arg)
{
  struct worker *w = arg;
  struct pipeline *p = w->pipeline;
  struct frame *f;

  pthread_mutex_lock (&p->lock);
  while ((f = next_job_locked (p)) != NULL) {
    uint64_t k = f->index, read_bytes = 0;
    struct slot was = p->queue.slots[k];
    int level = was.built ? was.level : choose_level (&p->config);
    struct built built;
    unsigned char *data;
    int err = 0, r;

    pthread_mutex_unlock (&p->lock);
    r = build (p, w->builder, k, level, &was, &built, &data, &read_bytes,
               &err);
    pthread_mutex_lock (&p->lock);

    p->read_bytes += read_bytes;
    p->level = level;
    if (r == 0)
      queue_built (&p->queue, f, data, built.bytes, level, built.data_bytes,
                   built.zero_bytes);
    else
      queue_failed (&p->queue, f, err);
    pthread_cond_broadcast (&p->ready);
    pthread_cond_broadcast (&p->work);
  }
  pthread_mutex_unlock (&p->lock);
  return NULL;
}

/* Start the workers that are not there yet; signals stay with nbdkit.
 * False if there is none.
 */
static bool
start_workers_locked (struct pipeline *p)
{
  sigset_t all, old;

  if (p->nr_started == p->nr_workers)
    return true;
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &old);
  for (; p->nr_started < p->nr_workers; p->nr_started++) {
    struct worker *w = &p->workers[p->nr_started];

    if (pthread_create (&w->thread, NULL, worker_thread, w) != 0)
      break;
  }
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  return p->nr_started > 0;
}

/* Has the frame become ready, or will not?  Waits at most QUIT_CHECK_MS. */
static bool
wait_settled_locked (struct pipeline *p, const struct frame *f)
{
  struct timespec until;

  clock_gettime (CLOCK_MONOTONIC, &until);
  until.tv_nsec += QUIT_CHECK_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  while (f->state != FRAME_READY && f->state != FRAME_FAILED &&
         !atomic_load (&p->stop))
    if (pthread_cond_timedwait (&p->ready, &p->lock, &until) == ETIMEDOUT)
      return false;
  return true;
}

static void
unpin_locked (struct pipeline *p, struct frame *f)
{
  if (queue_unpin (&p->queue, f))
    pthread_cond_broadcast (&p->work);
}

/* Pin frame k and wait until it is ready.  NULL with *err set. */
static struct frame *
pin_frame_locked (struct pipeline *p, uint64_t k, int *err)
{
  struct frame *f;
  bool quit = false;

  if (p->queue.slots[k].failed) {
    *err = p->queue.slots[k].length;
    return NULL;
  }
  f = start_workers_locked (p) ? queue_pin (&p->queue, k) : NULL;
  if (!f) {
    *err = ENOMEM;
    return NULL;
  }
  if (f->state == FRAME_WANTED)
    pthread_cond_broadcast (&p->work);
  if (f->state != FRAME_READY)
    p->reader_waits++;
  while (!quit && !wait_settled_locked (p, f)) {
    /* nbdkit does not tell a callback that it is to end, nor that the
     * client has gone, but its sleep does.
     */
    pthread_mutex_unlock (&p->lock);
    quit = nbdkit_nanosleep (0, 0) == -1;
    pthread_mutex_lock (&p->lock);
  }
  if (f->state == FRAME_READY)
    return f;
  *err = f->state == FRAME_FAILED ? f->error : ESHUTDOWN;
  unpin_locked (p, f);
  return NULL;
}

static struct frame *
pin_frame (struct pipeline *p, uint64_t k, int *err)
{
  LOCK_FOR_SCOPE (&p->lock);

  return pin_frame_locked (p, k, err);
}

/* A reader knows the length now, and got [start, end) of the frame. */
static void
unpin_frame (struct pipeline *p, struct frame *f, uint32_t start,
             uint32_t end)
{
  LOCK_FOR_SCOPE (&p->lock);

  queue_mark_read (&p->queue, f, start, end);
  unpin_locked (p, f);
}

/* The length of frame k, if readers were told of it already. */
static bool
length_is_known (struct pipeline *p, uint64_t k, uint32_t *ret)
{
  LOCK_FOR_SCOPE (&p->lock);
  const struct slot *slot = &p->queue.slots[k];

  if (!slot->told || slot->failed)
    return false;
  *ret = slot->length;
  return true;
}

int
pipeline_length (struct pipeline *p, uint64_t k, uint32_t *ret, int *err)
{
  struct frame *f;

  if (k == 0) {
    *ret = p->source->record_bytes;
    return 0;
  }
  if (length_is_known (p, k, ret))
    return 0;
  f = pin_frame (p, k, err);
  if (!f)
    return -1;
  *ret = f->length;
  unpin_frame (p, f, 0, 0);
  return 0;
}

/* Copy what of the frame is in the range, and zeroes behind it.  Returns
 * the bytes of the frame.
 */
static uint32_t
copy_frame (const unsigned char *frame, uint32_t length, uint64_t offset,
            uint32_t count, void *buf)
{
  uint32_t n = 0;

  if (offset < length) {
    n = count < length - offset ? count : length - offset;
    memcpy (buf, frame + offset, n);
  }
  memset ((char *) buf + n, 0, count - n);
  return n;
}

static int
read_record (struct pipeline *p, uint64_t offset, uint32_t count, void *buf)
{
  uint32_t n = copy_frame (p->source->record, p->source->record_bytes,
                           offset, count, buf);
  LOCK_FOR_SCOPE (&p->lock);

  p->queue.stats.sent_bytes += n;
  return 0;
}

int
pipeline_read (struct pipeline *p, uint64_t k, uint64_t offset,
               uint32_t count, void *buf, int *err)
{
  uint32_t length, n;
  struct frame *f;

  if (k == 0)
    return read_record (p, offset, count, buf);
  if (offset >= FRAME_MAX_BYTES ||
      (length_is_known (p, k, &length) && offset >= length)) {
    memset (buf, 0, count);
    return 0;
  }
  f = pin_frame (p, k, err);
  if (!f)
    return -1;
  n = copy_frame (f->data, f->length, offset, count, buf);
  unpin_frame (p, f, n > 0 ? offset : 0, n > 0 ? offset + n : 0);
  return 0;
}

void
pipeline_get_stats (struct pipeline *p, struct pipeline_stats *ret)
{
  LOCK_FOR_SCOPE (&p->lock);

  *ret = (struct pipeline_stats) {
    .queue = p->queue.stats,
    .frames = p->source->plan.nr_batches,
    .queue_frames = p->queue.frames.nr_ready,
    .read_bytes = p->read_bytes,
    .reader_waits = p->reader_waits, .worker_waits = p->worker_waits,
    .level = p->level,
  };
}
