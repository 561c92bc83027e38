/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From the writes of NBD clients to passes of sessions.
 *
 * A disk (struct disk, pass.h) is what an export name stands for.  A pass is
 * one stream of frames for it, opened by its frame 0.  The disk's current
 * pass is the one that was opened last; it may be open, or have ended in one
 * way or another.  Pending passes are those of session ids whose frame 0 has
 * not come; there are no more of them than connections.
 *
 * A connection does not say which session it belongs to, so its pieces go
 * into a set of its own (nascent) until an envelope among them tells.  Then
 * the connection is bound to that pass and its pieces are moved there.  A
 * flush binds those connections that never show an envelope: they had only
 * middles of frames.  Once a pass is closed its connections are unbound: what
 * comes next on them is of the next pass, or of the next session.
 *
 * A frame leaves its set when it has been unpacked and given to the writer;
 * from then on pieces of it are ignored.  A slot that is only zeroed is no
 * frame, and not even remembered: so zeroes may be of any length.
 *
 * Locks: see pass.h.  The thread of a request holds its disk's lock nearly
 * all the time (copying a piece takes microseconds) and gives it up for what
 * takes long (pass.c).  Messages are collected and logged without it.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "disk.h"
#include "log.h"
#include "pass.h"
#include "storage.h"

static const char another_record[] = "another record in the same session";

static unsigned last_image_id;  /* guarded by session_lock */

void
disks_init (const struct session_ops *ops)
{
  session_ops = ops;
}

int
image_close (struct image *image)
{
  if (!image->writer)
    return 0;
  writer_stop (image->writer);
  image->writer = NULL;
  return storage_close (image->id);
}

static strings
take_messages_locked (struct disk *d)
{
  strings messages = d->messages;

  d->messages = (strings) { 0 };
  return messages;
}

static void
log_messages (strings *messages)
{
  int saved = errno;

  for (size_t i = 0; i < messages->len; i++) {
    log_error ("%s", messages->ptr[i]);
    free (messages->ptr[i]);
  }
  strings_reset (messages);
  errno = saved;
}

void
disk_tell (struct disk *d)
{
  strings messages;

  {
    LOCK_FOR_SCOPE (&d->lock);
    messages = take_messages_locked (d);
  }
  log_messages (&messages);
}

/* Connections. */

static void
disk_free (struct disk *d)
{
  while (d->pending)
    pass_unref (d, d->pending);
  if (d->current)
    pass_unref (d, d->current);
  pthread_mutex_destroy (&d->lock);
  pthread_cond_destroy (&d->changed);
  strings_reset (&d->messages);
  free (d->name);
  free (d);
}

static struct disk *
disk_new_locked (const char *name)
{
  struct disk *d;
  size_t n = 0;

  for (d = all_disks; d; d = d->next)
    n++;
  if (n >= DISKS_MAX) {
    log_error ("%s: too many disks are in use already", name);
    return NULL;
  }
  d = calloc (1, sizeof *d);
  if (!d || !(d->name = strdup (name))) {
    log_error ("%s: %m", name);
    free (d);
    return NULL;
  }
  pthread_mutex_init (&d->lock, NULL);
  pthread_cond_init (&d->changed, NULL);
  d->image.name = d->name;
  d->image.id = ++last_image_id;
  d->next = all_disks;
  all_disks = d;
  return d;
}

struct conn *
disk_connect (const char *name)
{
  struct conn *c = calloc (1, sizeof *c);
  struct disk *d;

  if (!c) {
    log_error ("%s: %m", name);
    return NULL;
  }
  LOCK_FOR_SCOPE (&session_lock);
  for (d = all_disks; d; d = d->next)
    if (strcmp (d->name, name) == 0)
      break;
  if (!d && !(d = disk_new_locked (name))) {
    free (c);
    return NULL;
  }
  LOCK_FOR_SCOPE (&d->lock);
  if (!d->conns)
    d->said = false;
  c->disk = d;
  c->next = d->conns;
  d->conns = c;
  return c;
}

void
conn_bind (struct conn *c, struct pass *pass)
{
  c->pass = pass;
  c->closed = false;
  pass->refs++;
}

static void
conn_unbind (struct conn *c)
{
  pass_unref (c->disk, c->pass);
  c->pass = NULL;
}

/* What is lost when the last client goes. */
static void
warn_unflushed (struct disk *d)
{
  struct pass *pass = d->current;
  uint64_t missing;

  if (pass && pass->state == PASS_OPEN && !pass->warned && !d->said) {
    pass->warned = true;
    missing = pass->record.frames - pass->taken.total;
    if (missing > 0)
      disk_say (d, "%s: the stream ended with %" PRIu64 " of %" PRIu64
                " frames missing; nothing was committed", d->name, missing,
                pass->record.frames);
    else
      disk_say (d, "%s: all frames came but no flush, so nothing was "
                "committed; use nbdcopy --flush", d->name);
  }
}

/* With the session lock: a name that never had a session need not be
 * remembered.
 */
static void
forget_if_unused (struct disk *d)
{
  struct disk **p;

  if (d->conns || d->current)
    return;
  for (p = &all_disks; *p != d; p = &(*p)->next)
    ;
  *p = d->next;
  disk_free (d);
}

void
disk_disconnect (struct conn *c)
{
  struct disk *d = c->disk;
  strings messages;

  {
    LOCK_FOR_SCOPE (&session_lock);
    {
      LOCK_FOR_SCOPE (&d->lock);
      for (struct conn **x = &d->conns; *x; x = &(*x)->next)
        if (*x == c) {
          *x = c->next;
          break;
        }
      if (!d->conns)
        warn_unflushed (d);
      if (c->pass)
        conn_unbind (c);
      frames_reset (&c->nascent);
      free (c);
      messages = take_messages_locked (d);
    }
    forget_if_unused (d);
  }
  log_messages (&messages);
}

/* Binding. */

static int
conn_fail (struct conn *c, uint64_t frame, const char *why, int error)
{
  if (!c->failed)
    disk_say (c->disk, "%s: frame %" PRIu64 ", at %" PRIu64
              " of the stream: %s%s%s", c->disk->name, frame,
              frame * SLOT_BYTES, why, error ? ": " : "",
              error ? strerror (error) : "");
  c->failed = true;
  frames_reset (&c->nascent);
  errno = error == ENOSPC ? ENOSPC : EIO;
  return -1;
}

/* Is what came of slot 0 of the record that the pass has? */
static const char *
check_record (const struct partial *p, const struct pass *pass)
{
  unsigned char buf[4096];

  errno = 0;

  for (size_t i = 0; i < p->data.v.len; i++) {
    struct interval x = p->data.v.ptr[i];

    while (x.start < x.end && x.start < pass->first_bytes) {
      size_t n = x.end - x.start;
      const char *wrong;

      if (n > sizeof buf)
        n = sizeof buf;
      wrong = partial_read (p, x.start, buf, n);
      if (wrong)
        return wrong;
      if (!pass_same_record (pass, x.start, buf, n))
        return another_record;
      x.start += n;
    }
  }
  return NULL;
}

int
conn_move (struct disk *d, struct conn *c, struct frames *from,
              struct pass *pass)
{
  while (from->v.len > 0) {
    struct partial *p = from->v.ptr[from->v.len - 1], *q;
    uint64_t index = p->index;
    const char *wrong;

    if (pass->state == PASS_FAILED || pass->state == PASS_FENCED) {
      frames_reset (from);
      return pass_refuse (d, pass);
    }
    if (index == 0 && pass->state != PASS_PENDING) {
      wrong = check_record (p, pass);
      frames_drop (from, p);
      if (wrong && pass->state == PASS_CLOSED)
        return conn_fail (c, 0, wrong, errno);
      if (wrong)
        pass_fail (d, pass, 0, wrong, errno);
      continue;
    }
    if (pass->state == PASS_CLOSED ||
        intervals_cover (&pass->taken, index, index + 1) ||
        (pass->state == PASS_OPEN && p->data.total == 0 &&
         index > pass->record.frames)) {
      frames_drop (from, p);
      continue;
    }
    q = frames_find (&pass->frames, index);
    if (q && q->busy) {
      pthread_cond_wait (&d->changed, &d->lock);
      continue;
    }
    wrong = frames_move (from, p, &pass->frames);
    if (wrong)
      pass_fail (d, pass, index, wrong, errno);
  }
  return 0;
}

/* An envelope has shown the session: bind the connection to its pass, and
 * do what can be done now.
 */
static int
conn_identify (struct disk *d, struct conn *c, uint64_t session)
{
  struct pass *pass = d->current;
  struct partial *p;

  if (session_is_fenced (session)) {
    disk_say (d, "%s: session %016" PRIx64 " was ended by a newer one",
              d->name, session);
    c->failed = true;
    frames_reset (&c->nascent);
    errno = EIO;
    return -1;
  }
  if (!pass || pass->session != session ||
      (pass->state == PASS_CLOSED && !pass->record.final)) {
    for (pass = d->pending; pass; pass = pass->next)
      if (pass->session == session)
        break;
    if (!pass) {
      pass = pass_new (session);
      if (!pass) {
        errno = ENOMEM;
        return -1;
      }
      pass->refs = 0;
      pass->next = d->pending;
      d->pending = pass;
    }
  }
  conn_bind (c, pass);
  if (conn_move (d, c, &c->nascent, pass) == -1)
    return -1;
  if (pass->state == PASS_PENDING) {
    p = frames_find (&pass->frames, 0);
    return p ? pass_try (d, pass, p, false) : 0;
  }
  return pass->state == PASS_OPEN ? pass_sweep (d, pass, false) : 0;
}

/* Pieces. */

/* The piece came on a connection that repeats a closed pass.  Does it show
 * that this is something else?
 */
static bool
is_news (const struct pass *pass, uint64_t index, uint64_t at,
         const unsigned char *buf, uint64_t n)
{
  struct envelope env;

  if (!buf)
    return false;
  if (index == 0)
    return !pass_same_record (pass, at, buf, n);
  return at == 0 && n >= ENVELOPE_BYTES &&
    envelope_decode (buf, index, &env) == NULL &&
    env.session != pass->session;
}

/* Is the piece one to keep?  0: no, ignore it. */
static int
pass_wants (struct disk *d, struct pass *pass, uint64_t index, uint64_t at,
            const void *buf, uint64_t n)
{
  int error;

  switch (pass->state) {
  case PASS_CLOSED:
    return 0;
  case PASS_FAILED:
  case PASS_FENCED:
    return pass_refuse (d, pass);
  case PASS_PENDING:
    return 1;
  case PASS_OPEN:
    break;
  }
  error = writer_error (d->image.writer);
  if (error != 0)
    return pass_fail_told (d, pass, error);
  if (index == 0) {
    if (buf && !pass_same_record (pass, at, buf, n))
      return pass_fail (d, pass, 0, another_record, 0);
    return 0;
  }
  if (index > pass->record.frames)
    return !buf ? 0 :
      pass_fail (d, pass, index,
                 "beyond the last one that its record announces", 0);
  return !intervals_cover (&pass->taken, index, index + 1);
}

static int
take_piece (struct disk *d, struct conn *c, uint64_t index, uint64_t at,
            const unsigned char *buf, uint64_t n)
{
  for (;;) {
    struct pass *pass = c->pass;
    struct frames *frames = pass ? &pass->frames : &c->nascent;
    struct partial *p;
    const char *wrong;
    bool had_envelope;

    if (c->failed) {
      errno = EIO;
      return -1;
    }
    if (pass && pass->state == PASS_CLOSED &&
        is_news (pass, index, at, buf, n)) {
      conn_unbind (c);
      continue;
    }
    if (pass) {
      int r = pass_wants (d, pass, index, at, buf, n);

      if (r <= 0)
        return r;
    }
    p = frames_find (frames, index);
    if (!p && !buf && at == 0)
      return 0;                 /* a frame does not begin with zeroes */
    if (p && p->busy) {
      pthread_cond_wait (&d->changed, &d->lock);
      continue;
    }
    if (!p && !(p = frames_get (frames, index))) {
      errno = ENOMEM;
      return -1;
    }
    if (buf)
      c->closed = false;
    had_envelope = p->has_envelope;
    wrong = partial_add (p, at, buf, n);
    if (wrong)
      return pass ? pass_fail (d, pass, index, wrong, errno)
                  : conn_fail (c, index, wrong, errno);
    if (!had_envelope && p->has_envelope) {
      if (!pass)
        return conn_identify (d, c, p->envelope.session);
      if (p->envelope.session != pass->session)
        return pass_fail (d, pass, index, "of another session", 0);
    }
    return pass ? pass_try (d, pass, p, false) : 0;
  }
}

int
disk_write (struct conn *c, uint64_t offset, const void *buf, uint64_t n)
{
  struct disk *d = c->disk;
  int r = 0;

  pthread_mutex_lock (&d->lock);
  while (r == 0 && n > 0) {
    uint64_t at = offset % SLOT_BYTES;
    uint64_t part = n < SLOT_BYTES - at ? n : SLOT_BYTES - at;

    r = take_piece (d, c, offset / SLOT_BYTES, at, buf, part);
    offset += part;
    n -= part;
    if (buf)
      buf = (const char *) buf + part;
  }
  pthread_mutex_unlock (&d->lock);
  disk_tell (d);
  return r;
}

void
disks_cleanup (void)
{
  LOCK_FOR_SCOPE (&session_lock);
  while (all_disks) {
    struct disk *d = all_disks;
    struct conn *c;

    {
      LOCK_FOR_SCOPE (&d->lock);
      warn_unflushed (d);
      while ((c = d->conns)) {  /* nbdkit does not close them on a signal */
        d->conns = c->next;
        if (c->pass)
          conn_unbind (c);
        frames_reset (&c->nascent);
        free (c);
      }
    }
    disk_tell (d);
    image_close (&d->image);
    all_disks = d->next;
    disk_free (d);
  }
}
