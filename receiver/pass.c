/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Passes: opened by their session record, fed with frames, closed by a
 * flush.  See disk.c for the whole.
 *
 * Work that takes long is done without the disk's lock: the thread sets
 * p->busy on the frame it works on and counts itself in pass->busy.  Whoever
 * wants the pass at rest waits for busy to be 0.  pass->busy > 0 also keeps
 * the disk's writer from being stopped.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "apply.h"
#include "cleanup.h"
#include "fault.h"
#include "log.h"
#include "pass.h"
#include "storage.h"

#define FENCED_MAX 64

pthread_mutex_t session_lock = PTHREAD_MUTEX_INITIALIZER;
struct disk *all_disks;
const struct session_ops *session_ops;

/* Sessions that newer ones ended, the last FENCED_MAX of them. */
static pthread_mutex_t fenced_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t fenced[FENCED_MAX];
static size_t nr_fenced;

bool
session_is_fenced (uint64_t session)
{
  size_t n;

  LOCK_FOR_SCOPE (&fenced_lock);
  n = nr_fenced < FENCED_MAX ? nr_fenced : FENCED_MAX;
  for (size_t i = 0; i < n; i++)
    if (fenced[i] == session)
      return true;
  return false;
}

static void
fence_session (uint64_t session)
{
  if (session_is_fenced (session))
    return;
  LOCK_FOR_SCOPE (&fenced_lock);
  fenced[nr_fenced++ % FENCED_MAX] = session;
}

void
disk_say (struct disk *d, const char *fmt, ...)
{
  va_list ap;
  char *message;
  int r;

  d->said = true;
  va_start (ap, fmt);
  r = vasprintf (&message, fmt, ap);
  va_end (ap);
  if (r != -1 && strings_append (&d->messages, message) == -1)
    free (message);
}

struct pass *
pass_new (uint64_t session)
{
  struct pass *pass = calloc (1, sizeof *pass);

  if (pass) {
    pass->session = session;
    pass->refs = 1;
  }
  return pass;
}

void
pass_unref (struct disk *d, struct pass *pass)
{
  if (--pass->refs > 0)
    return;
  for (struct pass **p = &d->pending; *p; p = &(*p)->next)
    if (*p == pass) {
      *p = pass->next;
      break;
    }
  frames_reset (&pass->frames);
  intervals_reset (&pass->taken);
  session_record_reset (&pass->record);
  free (pass->first);
  free (pass);
}

/* Free the frames of a pass that takes nothing any more, once at rest. */
static void
drop_frames (struct pass *pass)
{
  if (pass->busy == 0 && pass->state != PASS_PENDING &&
      pass->state != PASS_OPEN) {
    frames_reset (&pass->frames);
    intervals_reset (&pass->taken);
  }
}

int
pass_fail_told (struct disk *d, struct pass *pass, int error)
{
  if (pass->state == PASS_PENDING || pass->state == PASS_OPEN) {
    pass->state = PASS_FAILED;
    pass->error = error == ENOSPC ? ENOSPC : EIO;
    d->said = true;
    drop_frames (pass);
    pthread_cond_broadcast (&d->changed);
  }
  return pass_refuse (d, pass);
}

int
pass_fail (struct disk *d, struct pass *pass, uint64_t frame,
           const char *why, int error)
{
  if (pass->state == PASS_PENDING || pass->state == PASS_OPEN)
    disk_say (d, "%s: frame %" PRIu64 ", at %" PRIu64 " of the stream: %s"
              "%s%s", d->name, frame, frame * SLOT_BYTES, why,
              error ? ": " : "", error ? strerror (error) : "");
  return pass_fail_told (d, pass, error);
}

int
pass_refuse (struct disk *d, struct pass *pass)
{
  if (pass->state == PASS_FENCED && !pass->told) {
    disk_say (d, "%s: session %016" PRIx64 " was ended by a newer one",
              d->name, pass->session);
    pass->told = true;
  }
  errno = pass->state == PASS_FAILED ? pass->error : EIO;
  return -1;
}

bool
pass_same_record (const struct pass *pass, uint64_t at, const void *buf,
                  uint64_t n)
{
  if (at >= pass->first_bytes)
    return true;
  if (n > pass->first_bytes - at)
    n = pass->first_bytes - at;
  return memcmp (pass->first + at, buf, n) == 0;
}

/* Frames. */

static void
count_frame (struct pass *pass, const struct envelope *env)
{
  for (int i = 0; i < 16; i++)
    pass->sum[i] ^= env->sum[i];
  pass->data_bytes += env->unpacked_bytes -
    (uint64_t) env->nr_extents * EXTENT_BYTES;
  pass->wire_bytes += ENVELOPE_BYTES + env->packed_bytes;
}

static int
try_batch (struct disk *d, struct pass *pass, struct partial *p, bool last)
{
  const char *wrong = NULL;
  enum applied applied;
  int error;

  p->busy = true;
  pass->busy++;
  pthread_mutex_unlock (&d->lock);
  applied = apply_batch (p, pass->record.size, d->image.writer, &wrong);
  error = errno;
  pthread_mutex_lock (&d->lock);
  pass->busy--;
  p->busy = false;
  pthread_cond_broadcast (&d->changed);

  if (pass->state != PASS_OPEN) {
    drop_frames (pass);
    return pass_refuse (d, pass);
  }
  switch (applied) {
  case APPLIED:
    if (intervals_add (&pass->taken, p->index, p->index + 1) == -1)
      return pass_fail (d, pass, p->index, "out of memory", 0);
    count_frame (pass, &p->envelope);
    FAULT_POINT ("receive-frame");
    frames_drop (&pass->frames, p);
    return 0;
  case BAD_SUM:
    if (partial_is_data (p) || (last && partial_covered (p)))
      return pass_fail (d, pass, p->index, "its checksum is wrong", 0);
    p->doubtful = true;
    return 0;
  case NOT_APPLIED:
    break;
  }
  return wrong ? pass_fail (d, pass, p->index, wrong, error)
               : pass_fail_told (d, pass, error);
}

/* Opening. */

/* End all sessions but this one.  The session lock is held, and no lock of
 * a disk.
 */
static void
fence_others (uint64_t session)
{
  for (struct disk *d = all_disks; d; d = d->next) {
    {
      LOCK_FOR_SCOPE (&d->lock);
      struct pass *pass = d->current;

      if (!pass || pass->session == session)
        continue;
      if (pass->state == PASS_OPEN) {
        pass->state = PASS_FENCED;
        fence_session (pass->session);
        pthread_cond_broadcast (&d->changed);
      }
      while (pass->busy > 0)
        pthread_cond_wait (&d->changed, &d->lock);
      drop_frames (pass);
    }
    /* Of a session that is not the one in work any more: its errors are
     * nobody's.
     */
    image_close (&d->image);
  }
}

/* With the session lock, and without the disk's: may the pass be opened,
 * and then prepare its image.
 */
static int
open_image (struct disk *d, uint64_t session,
            const struct session_record *record)
{
  struct image *image = &d->image;

  if (session_is_fenced (session)) {
    log_error ("%s: session %016" PRIx64 " was ended by a newer one",
               d->name, session);
    return -1;
  }
  if (d->current && d->current->session == session &&
      d->current->record.final) {
    log_error ("%s: pass %" PRIu64 " after the final one of its session",
               d->name, record->pass);
    return -1;
  }
  if (image->session == session && image->passes > 0 &&
      record->pass != image->passes + 1) {
    log_error ("%s: pass %" PRIu64 " after pass %" PRIu64 " of its session",
               d->name, record->pass, image->passes);
    return -1;
  }
  if (session_ops->admit (d->name, record, session) == -1)
    return -1;
  fence_others (session);
  if (image->session != session || image->passes == 0) {
    image->session = session;
    image->passes = 0;
    image->entry = (struct replica_disk) { 0 };
  }
  return session_ops->open (image, record);
}

/* The frame 0 of a pass that was closed comes again. */
static bool
is_repeat (const struct disk *d, const struct pass *pass,
           const unsigned char *first, size_t n)
{
  const struct pass *c = d->current;

  return c && c->state == PASS_CLOSED && c->session == pass->session &&
    c->first_bytes == n && memcmp (c->first, first, n) == 0;
}

static void
become_current (struct disk *d, struct pass *pass)
{
  for (struct pass **p = &d->pending; *p; p = &(*p)->next)
    if (*p == pass) {
      *p = pass->next;
      break;
    }
  if (d->current)
    pass_unref (d, d->current);
  d->current = pass;
  pass->refs++;
  pass->state = PASS_OPEN;
}

static int
try_record (struct disk *d, struct pass *pass, struct partial *p, bool last)
{
  CLEANUP_FREE unsigned char *first = NULL;
  struct session_record record = { 0 };
  const char *wrong = NULL;
  enum applied applied;
  bool repeat = false;
  size_t n = 0;
  int error, r = 0;

  p->busy = true;
  pass->busy++;
  pthread_mutex_unlock (&d->lock);

  applied = apply_record (p, &record, &first, &n, &wrong);
  error = errno;
  pthread_mutex_lock (&session_lock);
  FAULT_POINT ("receive-record");
  if (applied == APPLIED) {
    {
      LOCK_FOR_SCOPE (&d->lock);
      repeat = is_repeat (d, pass, first, n);
    }
    if (!repeat)
      r = open_image (d, pass->session, &record);
  }
  pthread_mutex_lock (&d->lock);
  pass->busy--;
  p->busy = false;
  pthread_cond_broadcast (&d->changed);
  if (applied == APPLIED && pass->state == PASS_PENDING) {
    pass->record = record;
    record = (struct session_record) { 0 };
    pass->first = TAKE_PTR (first);
    pass->first_bytes = n;
    pass->wire_bytes = n;
    if (repeat)
      pass->state = PASS_CLOSED;
    else if (r == 0)
      become_current (d, pass);
  }
  pthread_mutex_unlock (&session_lock);
  session_record_reset (&record);

  switch (applied) {
  case APPLIED:
    if (r == -1)
      return pass_fail_told (d, pass, EIO);
    if (pass->state == PASS_OPEN) {
      frames_drop (&pass->frames, p);
      return pass_sweep (d, pass, last);
    }
    drop_frames (pass);
    return pass->state == PASS_CLOSED ? 0 : pass_refuse (d, pass);
  case BAD_SUM:
    if (partial_is_data (p) || (last && partial_covered (p)))
      return pass_fail (d, pass, 0, "its checksum is wrong", 0);
    p->doubtful = true;
    return 0;
  case NOT_APPLIED:
    break;
  }
  return pass_fail (d, pass, 0, wrong, error);
}

int
pass_try (struct disk *d, struct pass *pass, struct partial *p, bool last)
{
  if (p->busy || !p->has_envelope)
    return 0;
  if (!last &&
      (p->doubtful ? !partial_is_data (p) : !partial_covered (p)))
    return 0;
  if (pass->state == PASS_PENDING)
    return p->index == 0 ? try_record (d, pass, p, last) : 0;
  if (p->index > pass->record.frames)
    return pass_fail (d, pass, p->index,
                      "beyond the last one that its record announces", 0);
  return try_batch (d, pass, p, last);
}

int
pass_sweep (struct disk *d, struct pass *pass, bool last)
{
  struct partial *p;
  uint64_t next = 0;

  while (pass->state == PASS_OPEN &&
         (p = frames_from (&pass->frames, next))) {
    next = p->index + 1;
    if (last && !p->busy)
      partial_assume_envelope (p);
    if (p->has_envelope && p->envelope.session != pass->session)
      return pass_fail (d, pass, p->index, "of another session", 0);
    if (pass_try (d, pass, p, last) == -1)
      return -1;
  }
  return pass->state == PASS_OPEN ? 0 : pass_refuse (d, pass);
}

/* Closing. */

/* A commit failed: no disk of the session has what it was told. */
static void
fail_session (uint64_t session)
{
  for (struct disk *d = all_disks; d; d = d->next) {
    LOCK_FOR_SCOPE (&d->lock);
    if (d->current && d->current->session == session) {
      d->current->state = PASS_FAILED;
      d->current->error = EIO;
      pthread_cond_broadcast (&d->changed);
    }
  }
}

/* With the session lock, and without the disk's. */
static int
finish_image (struct disk *d, const struct pass *pass)
{
  struct replica_disk *entry = &d->image.entry;
  int r;

  entry->frames += pass->record.frames;
  entry->data_bytes += pass->data_bytes;
  entry->wire_bytes += pass->wire_bytes;
  for (int i = 0; i < 16; i++)
    entry->sum[i] ^= pass->sum[i];
  d->image.passes++;
  FAULT_POINT ("receive-flushed");
  r = session_ops->close_pass (&d->image, &pass->record);
  if (r != 1)
    return r;
  FAULT_POINT ("receive-last-disk");
  r = 0;
  for (struct disk *x = all_disks; x; x = x->next)
    if (image_close (&x->image) == -1)
      r = -1;
  FAULT_POINT ("receive-images-closed");
  if (r == 0)
    r = session_ops->commit ();
  if (r == -1)
    fail_session (pass->session);
  return r;
}

/* Its connections start afresh: what they send next is of another pass. */
static void
release_conns (struct disk *d, struct pass *pass)
{
  for (struct conn *c = d->conns; c; c = c->next)
    if (c->pass == pass) {
      c->pass = NULL;
      c->closed = true;
      pass_unref (d, pass);
    }
}

int
pass_close (struct disk *d, struct pass *pass)
{
  int r, error;

  FAULT_POINT ("receive-flush");
  pass->flushing = true;
  pass->busy++;
  pthread_mutex_unlock (&d->lock);
  r = writer_flush (d->image.writer);
  error = errno;
  pthread_mutex_lock (&d->lock);
  pass->busy--;
  pthread_cond_broadcast (&d->changed);
  if (r == -1) {
    pass->flushing = false;
    return pass_fail_told (d, pass, error);
  }

  /* A newer session may get the session lock before us. */
  pthread_mutex_unlock (&d->lock);
  pthread_mutex_lock (&session_lock);
  pthread_mutex_lock (&d->lock);
  if (pass->state == PASS_OPEN) {
    pthread_mutex_unlock (&d->lock);
    r = finish_image (d, pass);
    pthread_mutex_lock (&d->lock);
    if (r == -1)
      pass_fail_told (d, pass, EIO);
    else {
      pass->state = PASS_CLOSED;
      release_conns (d, pass);
    }
  }
  pthread_mutex_unlock (&session_lock);
  pass->flushing = false;
  pthread_cond_broadcast (&d->changed);
  drop_frames (pass);
  return pass->state == PASS_CLOSED ? 0 : pass_refuse (d, pass);
}
