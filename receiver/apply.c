/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Applying frames.  No state, and no locks of its own; runs in the thread
 * of the request that completed the frame, so that as many frames are
 * unpacked at once as clients send at once.  A zstd context is made for
 * each frame: that costs microseconds, and one kept per thread would cost
 * memory for each of nbdkit's threads.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include <jansson.h>
#include <zstd.h>

#include "apply.h"
#include "budget.h"
#include "cleanup.h"
#include "json.h"

static struct body *
body_alloc (const struct envelope *env)
{
  struct body *b = calloc (1, sizeof *b);

  if (b && pages_resize (&b->mem, env->unpacked_bytes) == -1) {
    free (b);
    b = NULL;
  }
  return b;
}

/* The frame's bytes as one piece, in memory taken from the budget. */
static const char *
load (const struct partial *p, struct pages *loaded,
      const unsigned char **ret_frame)
{
  size_t n = partial_bytes (p);

  if (partial_in_memory (p)) {
    *ret_frame = p->mem.ptr;
    return NULL;
  }
  if (pages_resize (loaded, n) == -1)
    return "out of memory";
  *ret_frame = loaded->ptr;
  return partial_read (p, 0, loaded->ptr, n);
}

/* Sets *ret_body unless the checksum is wrong. */
static const char *
unpack (const struct partial *p, const unsigned char *frame,
        uint64_t disk_bytes, struct body **ret_body)
{
  struct ZSTD_DCtx_s *dctx;
  struct body *b;
  const char *wrong;

  errno = 0;
  if (!frame_sum_ok (&p->envelope, frame)) {
    *ret_body = NULL;
    return NULL;
  }
  dctx = ZSTD_createDCtx ();
  b = body_alloc (&p->envelope);
  if (!dctx || !b)
    wrong = "out of memory";
  else {
    wrong = frame_unpack (&p->envelope, frame, disk_bytes, dctx, b->mem.ptr,
                          &b->extents, &b->data);
    errno = 0;
  }
  ZSTD_freeDCtx (dctx);
  if (wrong && b)
    body_free (b);
  *ret_body = wrong ? NULL : b;
  return wrong;
}

enum applied
apply_batch (const struct partial *p, uint64_t disk_bytes, struct writer *w,
             const char **ret_wrong)
{
  size_t loading = partial_in_memory (p) ? 0 : partial_bytes (p);
  size_t unpacking = p->envelope.unpacked_bytes +
    p->envelope.nr_extents * sizeof (struct extent);
  const unsigned char *frame;
  struct pages loaded = { 0 };
  struct body *b = NULL;
  const char *wrong;
  int error;

  budget_take_body (loading + unpacking);
  wrong = load (p, &loaded, &frame);
  if (!wrong)
    wrong = unpack (p, frame, disk_bytes, &b);
  error = errno;
  pages_free (&loaded);
  budget_give_body (loading + (b ? 0 : unpacking));
  errno = error;
  if (wrong) {
    *ret_wrong = wrong;
    return NOT_APPLIED;
  }
  if (!b)
    return BAD_SUM;
  b->budget = unpacking;
  *ret_wrong = NULL;
  return writer_push (w, b) == -1 ? NOT_APPLIED : APPLIED;
}

enum applied
apply_record (const struct partial *p, struct session_record *ret_record,
              unsigned char **ret_bytes, size_t *ret_n,
              const char **ret_wrong)
{
  size_t n = partial_bytes (p);
  CLEANUP_FREE unsigned char *frame = malloc (n);
  CLEANUP_JSON json_t *json = NULL;
  const char *wrong;

  errno = 0;
  wrong = frame ? partial_read (p, 0, frame, n) : "out of memory";
  if (!wrong) {
    if (!frame_sum_ok (&p->envelope, frame))
      return BAD_SUM;
    json = json_loadb ((char *) frame + ENVELOPE_BYTES,
                       n - ENVELOPE_BYTES, JSON_REJECT_DUPLICATES, NULL);
    wrong = json ? session_record_decode (json, ret_record)
                 : "the session record is not JSON";
    errno = 0;
  }
  if (wrong) {
    *ret_wrong = wrong;
    return NOT_APPLIED;
  }
  *ret_bytes = TAKE_PTR (frame);
  *ret_n = n;
  return APPLIED;
}
