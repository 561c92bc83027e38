/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Workers build frames in order of their numbers, ahead of the readers,
 * while there is room in the queue; a reader that asks for a frame which
 * is not there puts it on the list of wanted frames, which the workers
 * serve first.
 *
 * Memory.  delta-buffer is split into what the builders take (fixed) and
 * the queue.  A worker reserves the most that a frame can take before it
 * builds one, and gives back what the frame did not need.  Reading ahead
 * only waits for room.  A wanted frame makes room: the frame that was not
 * touched for longest is dropped, and built again if somebody wants it.
 * Nobody waits while he holds a pin on a ready frame, and a worker that
 * builds waits for nothing but the source, so a wanted frame is always
 * built in the end, whatever order the readers have.  A reader has its pin
 * from when it starts to wait, so what was built for it stays for it.
 *
 * Of every frame that was ever built the length and the level are kept: it
 * must come out the same if it is built again, since readers were told.
 * When every byte of a frame has been read it is dropped.
 *
 * Where reading ahead goes on ('cursor') follows the readers when they
 * start over, or jump, and then go on in sequence.  After an error nobody
 * reads ahead any more, but what is wanted is still tried.
 *
 * Locks: one mutex, p->lock, for all of struct pipeline that is marked.
 * It is not held while reading, compressing, copying or logging.  'work'
 * is for workers (a frame is wanted, there may be room), 'ready' for
 * readers (a frame is ready or has failed).  Lock order: it is the only
 * one.  Threads: the workers belong to the pipeline, from the first frame
 * that is wanted until pipeline_stop.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "cleanup.h"
#include "frames.h"
#include "log.h"
#include "pipeline.h"

#define READY_MAX 16384         /* frames; they may be tiny */
#define NEAR_FRAMES 16          /* a client's connections are about as far
                                   apart when it reads in sequence */
#define QUIT_CHECK_MS 200
#define LEVEL_OF_AUTO 1

/* What is kept of every frame. */
struct slot {
  uint32_t length;              /* if built; errno, if failed */
  int8_t level;                 /* that it was built with */
  bool built, failed, sent;
};

DEFINE_VECTOR (frame_queue, struct frame *)

struct pipeline {
  struct pipeline_config config;
  const struct source *source;
  size_t frame_max;             /* reserved for a frame that is built */
  uint64_t queue_max;           /* bytes */
  struct builder **builders;    /* one for each thread */
  pthread_t *threads;
  unsigned nr_threads;
  atomic_bool stop;

  pthread_mutex_t lock;
  pthread_cond_t work, ready;
  /* All below is guarded by lock. */
  unsigned nr_started, nr_joined;
  struct slot *slots;           /* by number of frame; 0 is not used */
  struct frames frames;
  frame_queue wanted;           /* first come, first served */
  uint64_t used;                /* bytes of the queue, reserved ones too */
  uint64_t cursor;              /* next frame to build ahead */
  bool again;                   /* build ahead also what has been sent */
  uint64_t last_wanted;
  bool failed;                  /* some frame has: no reading ahead */
  struct pipeline_stats stats;
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
count_threads (const struct pipeline_config *config,
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

struct pipeline *
pipeline_create (const struct pipeline_config *config,
                 const struct source *source)
{
  struct pipeline *p = calloc (1, sizeof *p);
  uint32_t batch_bytes = source->plan.batch_bytes;
  pthread_condattr_t monotonic;

  if (!p)
    goto no_memory;
  pthread_mutex_init (&p->lock, NULL);
  pthread_condattr_init (&monotonic);
  pthread_condattr_setclock (&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init (&p->work, &monotonic);
  pthread_cond_init (&p->ready, &monotonic);
  pthread_condattr_destroy (&monotonic);
  p->config = *config;
  p->source = source;
  p->cursor = 1;
  p->stats.packed_bytes = source->record_bytes;
  p->frame_max = builder_frame_max (batch_bytes);
  p->nr_threads = count_threads (config, source);
  p->queue_max = config->buffer_bytes -
    p->nr_threads * builder_bytes (batch_bytes, largest_level (config));
  p->slots = calloc (source->plan.nr_batches + 1, sizeof *p->slots);
  p->threads = calloc (p->nr_threads, sizeof *p->threads);
  p->builders = calloc (p->nr_threads, sizeof *p->builders);
  if (!p->slots || !p->threads || !p->builders)
    goto no_memory;
  for (unsigned i = 0; i < p->nr_threads; i++) {
    p->builders[i] = builder_create (source);
    if (!p->builders[i]) {
      pipeline_free (p);
      return NULL;
    }
  }
  log_debug ("%u threads, %" PRIu64 " bytes for the queue",
             p->nr_threads, p->queue_max);
  return p;

 no_memory:
  log_error ("the queue of frames: out of memory");
  pipeline_free (p);
  return NULL;
}

void
pipeline_stop (struct pipeline *p)
{
  unsigned nr_started;

  atomic_store (&p->stop, true);
  {
    LOCK_FOR_SCOPE (&p->lock);
    nr_started = p->nr_started;
    pthread_cond_broadcast (&p->work);
    pthread_cond_broadcast (&p->ready);
  }
  for (; p->nr_joined < nr_started; p->nr_joined++)
    pthread_join (p->threads[p->nr_joined], NULL);
}

void
pipeline_free (struct pipeline *p)
{
  if (!p)
    return;
  for (size_t i = 0; i < FRAMES_BUCKETS; i++)
    while (p->frames.buckets[i])
      frames_remove (&p->frames, p->frames.buckets[i]);
  for (unsigned i = 0; p->builders && i < p->nr_threads; i++)
    builder_free (p->builders[i]);
  frame_queue_reset (&p->wanted);
  free (p->builders);
  free (p->threads);
  free (p->slots);
  pthread_cond_destroy (&p->ready);
  pthread_cond_destroy (&p->work);
  pthread_mutex_destroy (&p->lock);
  free (p);
}

/* What a ready frame is charged with. */
static uint64_t
frame_cost (uint32_t length)
{
  return length + sizeof (struct frame);
}

static void
drop_frame_locked (struct pipeline *p, struct frame *f)
{
  p->used -= frame_cost (f->length);
  p->stats.queue_bytes -= f->length;
  frames_remove (&p->frames, f);
}

static bool
has_room_locked (const struct pipeline *p)
{
  return p->used + p->frame_max <= p->queue_max &&
    p->frames.nr_ready < READY_MAX;
}

/* Room for a frame that is wanted, if need be at the cost of others. */
static bool
make_room_locked (struct pipeline *p)
{
  while (!has_room_locked (p)) {
    struct frame *f = frames_oldest (&p->frames);

    if (!f)
      return false;
    drop_frame_locked (p, f);
  }
  return true;
}

/* The next frame to build ahead, entered as such; NULL if there is none. */
static struct frame *
next_ahead_locked (struct pipeline *p)
{
  uint64_t last = p->source->plan.nr_batches;
  struct frame *f;

  while (p->cursor <= last &&
         (frames_find (&p->frames, p->cursor) ||
          p->slots[p->cursor].failed ||
          (p->slots[p->cursor].sent && !p->again)))
    p->cursor++;
  if (p->cursor > last) {
    p->again = false;
    return NULL;
  }
  f = frames_add (&p->frames, p->cursor, FRAME_BUILDING);
  if (f)
    p->cursor++;
  return f;
}

/* Wait for something to build; NULL when it is time to stop.  Room for the
 * frame is reserved.
 */
static struct frame *
next_job_locked (struct pipeline *p)
{
  while (!atomic_load (&p->stop)) {
    struct frame *f = NULL;

    if (p->wanted.len > 0) {
      if (make_room_locked (p)) {
        f = p->wanted.ptr[0];
        p->wanted.len--;
        memmove (&p->wanted.ptr[0], &p->wanted.ptr[1],
                 p->wanted.len * sizeof p->wanted.ptr[0]);
      }
    }
    else if (!p->failed && has_room_locked (p))
      f = next_ahead_locked (p);
    if (f) {
      f->state = FRAME_BUILDING;
      p->used += p->frame_max;
      return f;
    }
    p->stats.worker_waits++;
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

static void
enter_ready_locked (struct pipeline *p, struct frame *f, int level,
                    const struct built *built, unsigned char *data)
{
  struct slot *slot = &p->slots[f->index];

  if (!slot->built) {
    p->stats.frames_built++;
    p->stats.data_bytes += built->data_bytes;
    p->stats.zero_bytes += built->zero_bytes;
    p->stats.packed_bytes += built->bytes;
  }
  slot->built = true;
  slot->length = built->bytes;
  slot->level = level;
  f->data = data;
  f->length = built->bytes;
  f->disk_bytes = built->disk_bytes;
  frames_touch (&p->frames, f);
  p->used += frame_cost (f->length);
  p->stats.queue_bytes += f->length;
}

static void
enter_failed_locked (struct pipeline *p, struct frame *f, int err)
{
  struct slot *slot = &p->slots[f->index];

  slot->failed = true;
  slot->length = err;
  p->failed = true;
  f->state = FRAME_FAILED;
  f->error = err;
  if (f->pins == 0)
    frames_remove (&p->frames, f);
}

struct worker {
  struct pipeline *p;
  struct builder *builder;
};

static void
work (struct pipeline *p, struct builder *b)
{
  struct frame *f;

  pthread_mutex_lock (&p->lock);
  while ((f = next_job_locked (p)) != NULL) {
    uint64_t k = f->index, read_bytes = 0;
    struct slot was = p->slots[k];
    int level = was.built ? was.level : choose_level (&p->config);
    struct built built;
    unsigned char *data;
    int err = 0, r;

    pthread_mutex_unlock (&p->lock);
    r = build (p, b, k, level, &was, &built, &data, &read_bytes, &err);
    pthread_mutex_lock (&p->lock);

    p->used -= p->frame_max;
    p->stats.read_bytes += read_bytes;
    p->stats.level = level;
    if (r == 0)
      enter_ready_locked (p, f, level, &built, data);
    else
      enter_failed_locked (p, f, err);
    pthread_cond_broadcast (&p->ready);
    pthread_cond_broadcast (&p->work);
  }
  pthread_mutex_unlock (&p->lock);
}

static void *
worker_thread (void *arg)
{
  struct worker w = *(struct worker *) arg;

  free (arg);
  work (w.p, w.builder);
  return NULL;
}

/* Start the workers that are not there yet; signals stay with nbdkit. */
static void
start_workers_locked (struct pipeline *p)
{
  sigset_t all, old;

  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &old);
  while (p->nr_started < p->nr_threads) {
    struct worker *w = malloc (sizeof *w);

    if (!w)
      break;
    *w = (struct worker) { .p = p, .builder = p->builders[p->nr_started] };
    if (pthread_create (&p->threads[p->nr_started], NULL, worker_thread,
                        w) != 0) {
      free (w);
      break;
    }
    p->nr_started++;
  }
  pthread_sigmask (SIG_SETMASK, &old, NULL);
}

/* Let reading ahead follow a reader that is elsewhere and, to judge by the
 * last frame that had to be asked for, reads in sequence.
 */
static void
follow_reader_locked (struct pipeline *p, uint64_t k)
{
  bool in_sequence = k > p->last_wanted && k - p->last_wanted <= NEAR_FRAMES;

  p->last_wanted = k;
  if (!in_sequence || (k >= p->cursor && k - p->cursor <= NEAR_FRAMES))
    return;
  if (k < p->cursor)
    p->again = true;
  p->cursor = k + 1;
}

/* Enter a frame that nobody builds; NULL if out of memory. */
static struct frame *
want_locked (struct pipeline *p, uint64_t k)
{
  struct frame *f;

  start_workers_locked (p);
  f = p->nr_started == 0 ? NULL : frames_add (&p->frames, k, FRAME_WANTED);
  if (!f)
    return NULL;
  if (frame_queue_append (&p->wanted, f) == -1) {
    frames_remove (&p->frames, f);
    return NULL;
  }
  follow_reader_locked (p, k);
  pthread_cond_broadcast (&p->work);
  return f;
}

/* Wait until the frame is ready or has failed; at most QUIT_CHECK_MS. */
static bool
is_settled_locked (struct pipeline *p, const struct frame *f)
{
  struct timespec until;

  clock_gettime (CLOCK_MONOTONIC, &until);
  until.tv_nsec += QUIT_CHECK_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  while (f->state != FRAME_READY && f->state != FRAME_FAILED &&
         !atomic_load (&p->stop))
    if (pthread_cond_timedwait (&p->ready, &p->lock, &until) == ETIMEDOUT)
      break;
  return f->state == FRAME_READY || f->state == FRAME_FAILED ||
    atomic_load (&p->stop);
}

static void
unpin_locked (struct pipeline *p, struct frame *f)
{
  f->pins--;
  if (f->pins == 0 && f->state == FRAME_FAILED)
    frames_remove (&p->frames, f);
  else if (f->pins == 0 && f->done) {
    drop_frame_locked (p, f);
    pthread_cond_broadcast (&p->work);
  }
  else if (f->pins == 0 && p->wanted.len > 0)
    pthread_cond_broadcast (&p->work);
}

/* Pin frame k when it is ready.  NULL with *err set. */
static struct frame *
pin_frame (struct pipeline *p, uint64_t k, int *err)
{
  bool quit = false;
  struct frame *f;

  pthread_mutex_lock (&p->lock);
  if (p->slots[k].failed) {
    *err = p->slots[k].length;
    pthread_mutex_unlock (&p->lock);
    return NULL;
  }
  f = frames_find (&p->frames, k);
  if (!f)
    f = want_locked (p, k);
  if (!f) {
    pthread_mutex_unlock (&p->lock);
    log_error ("frame %" PRIu64 ": out of memory or threads", k);
    *err = ENOMEM;
    return NULL;
  }
  f->pins++;
  if (f->state != FRAME_READY)
    p->stats.reader_waits++;
  while (!quit && !is_settled_locked (p, f)) {
    /* nbdkit does not tell a callback that it is to end, nor that the
     * client has gone, but its sleep does.
     */
    pthread_mutex_unlock (&p->lock);
    quit = nbdkit_nanosleep (0, 0) == -1;
    pthread_mutex_lock (&p->lock);
  }
  if (f->state == FRAME_READY)
    frames_touch (&p->frames, f);
  else {
    *err = f->state == FRAME_FAILED ? f->error : ESHUTDOWN;
    unpin_locked (p, f);
    f = NULL;
  }
  pthread_mutex_unlock (&p->lock);
  return f;
}

/* [start, end) of a pinned frame has been handed out (nothing, if these
 * are equal); unpin it.
 */
static void
unpin_frame (struct pipeline *p, struct frame *f, uint32_t start,
             uint32_t end)
{
  LOCK_FOR_SCOPE (&p->lock);

  p->stats.sent_bytes += end - start;
  if (end > start && frame_mark_read (f, start, end)) {
    struct slot *slot = &p->slots[f->index];

    f->done = true;
    if (!slot->sent)
      p->stats.disk_bytes_sent += f->disk_bytes;
    slot->sent = true;
  }
  unpin_locked (p, f);
}

/* The length of frame k, if it was ever built; else false. */
static bool
length_is_known (struct pipeline *p, uint64_t k, uint32_t *ret)
{
  LOCK_FOR_SCOPE (&p->lock);

  if (!p->slots[k].built || p->slots[k].failed)
    return false;
  *ret = p->slots[k].length;
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

  p->stats.sent_bytes += n;
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
  unpin_frame (p, f, offset, offset + n);
  return 0;
}

void
pipeline_get_stats (struct pipeline *p, struct pipeline_stats *ret)
{
  LOCK_FOR_SCOPE (&p->lock);

  *ret = p->stats;
  ret->frames = p->source->plan.nr_batches;
  ret->queue_frames = p->frames.nr_ready;
}
