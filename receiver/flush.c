/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A flush: which pass it is for, whether all of that has come, and then its
 * commit (pass_close).  See disk.c for the whole, pass.h for the locks.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>

#include "disk.h"
#include "pass.h"

/* Bind the connections that showed no envelope to this pass. */
static int
gather (struct disk *d, struct pass *pass)
{
  for (struct conn *c = d->conns; c; c = c->next) {
    struct frames mine = c->nascent;
    int r;

    if (c->pass || c->failed || mine.v.len == 0)
      continue;
    /* Moving may let go of the lock: nobody must find them twice, nor count
     * what is missing without them.
     */
    c->nascent = (struct frames) { 0 };
    conn_bind (c, pass);
    pass->busy++;
    r = conn_move (d, c, &mine, pass);
    pass->busy--;
    pthread_cond_broadcast (&d->changed);
    frames_reset (&mine);
    if (r == -1)
      return -1;
  }
  return 0;
}

/* No pass is there, only pieces on connections: which session are they of?
 * NULL if there is no envelope even when all are put together.
 */
static struct pass *
gather_new (struct disk *d)
{
  struct pass *pass = pass_new (0);

  if (!pass)
    return NULL;
  pass->refs = 0;
  pass->next = d->pending;
  d->pending = pass;
  if (gather (d, pass) == -1)
    return NULL;
  for (size_t i = 0; i < pass->frames.v.len; i++)
    if (partial_assume_envelope (pass->frames.v.ptr[i])) {
      pass->session = pass->frames.v.ptr[i]->envelope.session;
      return pass;
    }
  pass_fail (d, pass, 0, "a flush, but no frame has come", 0);
  return NULL;
}

static bool
has_nascent (const struct disk *d)
{
  for (struct conn *c = d->conns; c; c = c->next)
    if (!c->pass && !c->failed && frames_have_data (&c->nascent))
      return true;
  return false;
}

/* The pass that a flush on this connection speaks for. */
static struct pass *
flush_pass (struct disk *d, struct conn *c)
{
  if (c->pass)
    return c->pass;
  if (d->current && d->current->state == PASS_OPEN)
    return d->current;
  if (d->pending)
    return d->pending;
  if (has_nascent (d))
    return gather_new (d);
  if (!d->current)
    disk_say (d, "%s: a flush, but nothing was received", d->name);
  return d->current;
}

/* Wait until nobody works on the pass, and see what became of it.  1: it is
 * to be flushed.
 */
static int
settle (struct disk *d, struct pass *pass)
{
  while (pass->busy > 0 || pass->flushing)
    pthread_cond_wait (&d->changed, &d->lock);
  switch (pass->state) {
  case PASS_CLOSED:
    return 0;
  case PASS_FAILED:
  case PASS_FENCED:
    return pass_refuse (d, pass);
  default:
    return 1;
  }
}

static int
flush_locked (struct disk *d, struct pass *pass)
{
  struct partial *p;
  uint64_t missing;
  int r = settle (d, pass);

  if (r <= 0)
    return r;
  if (pass->state == PASS_PENDING ||
      pass->taken.total < pass->record.frames) {
    if (gather (d, pass) == -1)
      return -1;
    if (pass->state == PASS_PENDING && (p = frames_find (&pass->frames, 0)) &&
        !p->busy && partial_assume_envelope (p) &&
        pass_try (d, pass, p, true) == -1)
      return -1;
    if (pass->state == PASS_PENDING) {
      disk_say (d, "%s: a flush, but no session record (frame 0) came",
                d->name);
      errno = EIO;
      return -1;
    }
    if (pass->state == PASS_OPEN && pass_sweep (d, pass, true) == -1)
      return -1;
    r = settle (d, pass);
    if (r <= 0)
      return r;
  }
  missing = pass->record.frames - pass->taken.total;
  if (missing > 0) {
    disk_say (d, "%s: %" PRIu64 " of %" PRIu64 " frames are missing",
              d->name, missing, pass->record.frames);
    errno = EIO;
    return -1;
  }
  return pass_close (d, pass);
}

int
disk_flush (struct conn *c)
{
  struct disk *d = c->disk;
  struct pass *pass;
  int r = -1;

  pthread_mutex_lock (&d->lock);
  if (c->closed && !c->pass && !frames_have_data (&c->nascent))
    r = 0;                      /* again, after its pass was closed */
  else if (!c->failed && (pass = flush_pass (d, c))) {
    pass->refs++;
    r = flush_locked (d, pass);
    if (r == -1) {
      int saved = errno;
      pass_unref (d, pass);
      errno = saved;
    }
    else
      pass_unref (d, pass);
  }
  else
    errno = EIO;
  pthread_mutex_unlock (&d->lock);
  disk_tell (d);
  return r;
}
