/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The writer of an image.  One libnbd connection to the storage daemon,
 * used by one thread alone, which cuts the extents of queued bodies into
 * requests, keeps up to 'depth' of them in flight, and frees a body when
 * its last request has ended.  Neighbouring extents become one request;
 * requests end at multiples of REQUEST_BYTES, so that clusters are written
 * whole where the sender sent them whole.
 *
 * Only whole clusters are written with write-zeroes; of others the zeroes
 * are written as data.  QEMU (7.2 at least) makes a whole cluster out of
 * zeroes for a part of it if the rest of the cluster reads as zero, and
 * forgets that a write to that rest may be allocating the cluster just
 * then: that write's copy of the backing file then replaces the zeroes.
 *
 * The lock guards queue, error, flush counters and 'stopping'.  The event
 * descriptor wakes the thread, which otherwise sleeps in poll.  Lock order:
 * a writer's lock is never held while another is taken or a message given.
 *
 * The first error stays: what is queued is dropped, what comes is refused.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

#include <libnbd.h>

#include "budget.h"
#include "cleanup.h"
#include "log.h"
#include "storage.h"
#include "writer.h"

#define REQUEST_BYTES (UINT64_C (2) << 20)
#define ZERO_BYTES (UINT64_C (1) << 30)

struct writer {
  char *name;
  struct nbd_handle *nbd;       /* of the thread, once it runs */
  unsigned depth;
  uint64_t size, cluster_bytes; /* of the image; 0: no clusters */
  unsigned char *zeroes;        /* of cluster_bytes */
  int wake;                     /* eventfd */
  pthread_t thread;

  pthread_mutex_t lock;
  pthread_cond_t changed;       /* error or flushed */
  struct body *first, *last;    /* queue */
  int error;
  uint64_t flush_wanted, flushed;
  bool skip_zeroes, stopping;

  /* Of the thread alone: the body that is being cut into requests, where it
   * is in it, and what is in flight.
   */
  struct body *current;
  size_t at;
  uint64_t at_done;             /* bytes of extent 'at' */
  const unsigned char *at_data;
  unsigned in_flight;
  bool flush_in_flight;
};

struct request {
  struct writer *w;
  struct body *body;            /* a reference; NULL for a flush */
  uint64_t offset;
  uint64_t flush;               /* the value of flush_wanted it is for */
};

void
body_free (struct body *b)
{
  pages_free (&b->mem);
  extents_reset (&b->extents);
  budget_give_body (b->budget);
  free (b);
}

static void
body_unref (struct body *b)
{
  if (--b->refs == 0)
    body_free (b);
}

static void
wake (struct writer *w)
{
  uint64_t one = 1;

  if (write (w->wake, &one, sizeof one) != sizeof one)
    log_debug ("%s: eventfd: %m", w->name);
}

/* In the thread: say the first error, and then let others see it. */
static void
fail (struct writer *w, int error, const char *what, uint64_t offset)
{
  CLEANUP_FREE char *died = NULL;

  if (w->error != 0)            /* written by this thread alone */
    return;
  if (error == EIO)
    died = storage_death ();
  errno = error;
  if (!what)
    log_error ("%s: %s", w->name, died ? died : "no connection to storage");
  else if (died)
    log_error ("%s: %s at %" PRIu64 ": %s", w->name, what, offset, died);
  else
    log_error ("%s: %s at %" PRIu64 ": %m", w->name, what, offset);

  LOCK_FOR_SCOPE (&w->lock);
  w->error = error;
  pthread_cond_broadcast (&w->changed);
}

static int
request_done (void *opaque, int *error)
{
  struct request *r = opaque;

  if (*error != 0) {
    /* libnbd's ENOTCONN and the like mean nothing to our clients. */
    fail (r->w, *error == ENOSPC ? ENOSPC : EIO,
          r->body ? "write" : "flush", r->offset);
  }
  else if (!r->body) {
    LOCK_FOR_SCOPE (&r->w->lock);
    r->w->flushed = r->flush;
    pthread_cond_broadcast (&r->w->changed);
  }
  /* Not 1, to retire it at once: if the connection dies while a request is
   * being sent, libnbd 1.14 would go on with one that it has freed.
   */
  return 0;
}

static void
retire_requests (struct writer *w)
{
  int64_t cookie;

  while ((cookie = nbd_aio_peek_command_completed (w->nbd)) > 0)
    nbd_aio_command_completed (w->nbd, cookie);
}

/* Called once for each request, however it ends, when it is retired. */
static void
request_free (void *opaque)
{
  struct request *r = opaque;

  if (r->body) {
    r->w->in_flight--;
    body_unref (r->body);
  }
  else
    r->w->flush_in_flight = false;
  free (r);
}

/* How much of one kind lies from where we are in the current body on, up to
 * 'most'?
 */
static uint64_t
run_length (const struct writer *w, uint64_t most)
{
  const extents *e = &w->current->extents;
  const struct extent *x = &e->ptr[w->at];
  uint64_t end = x->offset + x->length, start = x->offset + w->at_done;

  for (size_t i = w->at + 1; i < e->len && end - start < most; i++) {
    if (e->ptr[i].kind != x->kind || e->ptr[i].offset != end)
      break;
    end += e->ptr[i].length;
  }
  return end - start < most ? end - start : most;
}

static void
advance (struct writer *w, uint64_t n)
{
  const extents *e = &w->current->extents;

  if (e->ptr[w->at].kind == EXTENT_DATA)
    w->at_data += n;
  while (n > 0) {
    uint64_t left = e->ptr[w->at].length - w->at_done;

    if (n < left) {
      w->at_done += n;
      return;
    }
    n -= left;
    w->at++;
    w->at_done = 0;
  }
}

/* How much of these zeroes goes into one request, and is that write-zeroes
 * or data?  Whole clusters or a part of one.
 */
static uint64_t
cut_zeroes (const struct writer *w, uint64_t offset, uint64_t length,
            bool *ret_as_data)
{
  uint64_t part;

  *ret_as_data = false;
  if (w->cluster_bytes == 0)
    return length;
  part = offset % w->cluster_bytes;
  if (part == 0 && offset + length == w->size)
    return length;
  if (part == 0 && length >= w->cluster_bytes)
    return length - length % w->cluster_bytes;
  *ret_as_data = true;
  part = w->cluster_bytes - part;
  return length < part ? length : part;
}

/* The next request of the current body: offset, length, and its data unless
 * it is of the kind EXTENT_ZERO.  False at its end.
 */
static bool
next_run (struct writer *w, struct extent *run, const unsigned char **data)
{
  const extents *e = &w->current->extents;
  bool as_data = false;
  uint64_t unit;

  while (w->at < e->len && w->skip_zeroes &&
         e->ptr[w->at].kind == EXTENT_ZERO)
    w->at++;
  if (w->at == e->len)
    return false;
  run->kind = e->ptr[w->at].kind;
  run->offset = e->ptr[w->at].offset + w->at_done;
  *data = w->at_data;
  unit = run->kind == EXTENT_DATA ? REQUEST_BYTES : ZERO_BYTES;
  run->length = run_length (w, unit - run->offset % unit);
  if (run->kind == EXTENT_ZERO)
    run->length = cut_zeroes (w, run->offset, run->length, &as_data);
  advance (w, run->length);
  if (run->kind == EXTENT_ZERO && as_data) {
    run->kind = EXTENT_DATA;
    *data = w->zeroes;
  }
  return true;
}

static void
send_run (struct writer *w, const struct extent *run,
          const unsigned char *data)
{
  struct request *r = malloc (sizeof *r);
  nbd_completion_callback done = { .callback = request_done, .user_data = r,
                                   .free = request_free };
  int64_t cookie;

  if (!r) {
    fail (w, ENOMEM, "write", run->offset);
    return;
  }
  *r = (struct request) { .w = w, .body = w->current,
                          .offset = run->offset };
  w->current->refs++;
  w->in_flight++;
  if (run->kind == EXTENT_DATA)
    cookie = nbd_aio_pwrite (w->nbd, data, run->length, run->offset, done, 0);
  else
    cookie = nbd_aio_zero (w->nbd, run->length, run->offset, done, 0);
  if (cookie == -1)             /* r is freed by now */
    fail (w, EIO, "write", run->offset);
}

static void
send_flush (struct writer *w, uint64_t wanted)
{
  struct request *r = malloc (sizeof *r);
  nbd_completion_callback done = { .callback = request_done, .user_data = r,
                                   .free = request_free };

  if (!r) {
    fail (w, ENOMEM, "flush", 0);
    return;
  }
  *r = (struct request) { .w = w, .flush = wanted };
  w->flush_in_flight = true;
  if (nbd_aio_flush (w->nbd, done, 0) == -1)
    fail (w, EIO, "flush", 0);
}

static void
drop_current (struct writer *w)
{
  body_unref (w->current);
  w->current = NULL;
}

/* Take the next body off the queue if none is current. */
static void
take_body_locked (struct writer *w)
{
  if (w->current || !w->first)
    return;
  w->current = w->first;
  w->first = w->current->next;
  if (!w->first)
    w->last = NULL;
  w->current->refs = 1;
  w->at = 0;
  w->at_done = 0;
  w->at_data = w->current->data;
}

/* Send what may be sent now.  False if the thread should end. */
static bool
send_requests (struct writer *w)
{
  const unsigned char *data;
  struct extent run;

  for (;;) {
    bool drop, stop;
    uint64_t flush = 0;

    retire_requests (w);
    {
      LOCK_FOR_SCOPE (&w->lock);
      take_body_locked (w);
      stop = w->stopping;
      drop = stop || w->error != 0;
      if (!w->current && w->in_flight == 0 && !w->flush_in_flight &&
          w->flush_wanted > w->flushed)
        flush = w->flush_wanted;
    }
    if (drop) {
      if (w->current) {
        drop_current (w);
        continue;
      }
      return !stop;
    }
    if (!w->current) {
      if (flush == 0)
        return true;
      send_flush (w, flush);
    }
    else if (w->in_flight >= w->depth)
      return true;
    else if (next_run (w, &run, &data))
      send_run (w, &run, data);
    else
      drop_current (w);
  }
}

/* Wait for the connection or for somebody who woke us, and serve it. */
static void
serve (struct writer *w)
{
  struct pollfd fds[2] = { { .fd = w->wake, .events = POLLIN },
                           { .fd = -1 } };
  unsigned direction = 0;
  uint64_t count;
  int r = 0;

  if (!nbd_aio_is_dead (w->nbd) && !nbd_aio_is_closed (w->nbd)) {
    direction = nbd_aio_get_direction (w->nbd);
    fds[1].fd = nbd_aio_get_fd (w->nbd);
    if (direction & LIBNBD_AIO_DIRECTION_READ)
      fds[1].events |= POLLIN;
    if (direction & LIBNBD_AIO_DIRECTION_WRITE)
      fds[1].events |= POLLOUT;
  }
  if (poll (fds, 2, -1) == -1)
    return;
  if ((fds[0].revents & POLLIN) &&
      read (w->wake, &count, sizeof count) != sizeof count)
    log_debug ("%s: eventfd: %m", w->name);
  if (fds[1].revents == 0)
    return;
  if ((fds[1].revents & (POLLIN | POLLHUP | POLLERR)) &&
      (direction & LIBNBD_AIO_DIRECTION_READ))
    r = nbd_aio_notify_read (w->nbd);
  else if ((fds[1].revents & (POLLOUT | POLLHUP | POLLERR)) &&
           (direction & LIBNBD_AIO_DIRECTION_WRITE))
    r = nbd_aio_notify_write (w->nbd);
  if (r == -1 || nbd_aio_is_dead (w->nbd) || nbd_aio_is_closed (w->nbd))
    fail (w, EIO, NULL, 0);
}

static void *
writer_thread (void *opaque)
{
  struct writer *w = opaque;

  while (send_requests (w))
    serve (w);
  return NULL;
}

static void
writer_free (struct writer *w)
{
  /* Requests in flight are freed here, and with them their bodies. */
  nbd_close (w->nbd);
  if (w->wake != -1)
    close (w->wake);
  pthread_mutex_destroy (&w->lock);
  pthread_cond_destroy (&w->changed);
  free (w->zeroes);
  free (w->name);
  free (w);
}

struct writer *
writer_start (const char *name, const char *export, unsigned depth,
              uint64_t cluster_bytes, bool skip_zeroes)
{
  struct writer *w = calloc (1, sizeof *w);
  sigset_t all, before;
  int error;

  if (!w) {
    log_error ("%s: %m", name);
    return NULL;
  }
  pthread_mutex_init (&w->lock, NULL);
  pthread_cond_init (&w->changed, NULL);
  w->depth = depth;
  w->cluster_bytes = cluster_bytes;
  w->skip_zeroes = skip_zeroes;
  w->zeroes = calloc (1, cluster_bytes + 1);
  w->name = strdup (name);
  w->wake = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  w->nbd = nbd_create ();
  if (!w->name || w->wake == -1 || !w->nbd || !w->zeroes) {
    log_error ("%s: %m", name);
    goto err;
  }
  if (nbd_set_export_name (w->nbd, export) == -1 ||
      nbd_connect_unix (w->nbd, storage_socket ()) == -1) {
    log_error ("%s: %s", name, nbd_get_error ());
    goto err;
  }
  w->size = nbd_get_size (w->nbd);
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  error = pthread_create (&w->thread, NULL, writer_thread, w);
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  if (error != 0) {
    errno = error;
    log_error ("%s: no thread: %m", name);
    goto err;
  }
  return w;

 err:
  writer_free (w);
  return NULL;
}

void
writer_write_zeroes (struct writer *w)
{
  LOCK_FOR_SCOPE (&w->lock);
  w->skip_zeroes = false;
}

int
writer_push (struct writer *w, struct body *b)
{
  int error;

  {
    LOCK_FOR_SCOPE (&w->lock);
    error = w->error;
    if (error == 0) {
      b->next = NULL;
      if (w->last)
        w->last->next = b;
      else
        w->first = b;
      w->last = b;
    }
  }
  if (error != 0) {
    body_free (b);
    errno = error;
    return -1;
  }
  wake (w);
  return 0;
}

int
writer_flush (struct writer *w)
{
  uint64_t ticket;

  {
    LOCK_FOR_SCOPE (&w->lock);
    ticket = ++w->flush_wanted;
  }
  wake (w);

  LOCK_FOR_SCOPE (&w->lock);
  while (w->error == 0 && w->flushed < ticket)
    pthread_cond_wait (&w->changed, &w->lock);
  errno = w->error;
  return w->error == 0 ? 0 : -1;
}

int
writer_error (struct writer *w)
{
  LOCK_FOR_SCOPE (&w->lock);
  return w->error;
}

void
writer_stop (struct writer *w)
{
  {
    LOCK_FOR_SCOPE (&w->lock);
    w->stopping = true;
  }
  wake (w);
  pthread_join (w->thread, NULL);
  writer_free (w);
}
