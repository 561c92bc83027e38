/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Building a frame.  Neighbouring data extents are read in one request if
 * the gap between them is small, since a request costs more than the few
 * bytes too many; what is sent is still only what is planned.  A read goes
 * to a buffer of its own, from which the blocks that are not zero are
 * copied to the body of the frame.
 *
 *   body:  | table, from the front ->  ...  | data, from data_start -> ... |
 *
 * The table's length is known only at the end; then it is moved up to the
 * data, and both are packed from where the table then starts.
 *
 * No locks: everything belongs to the thread of the builder but the
 * source, which does not change.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY /* the estimate of a context's size */
#include <zstd.h>

#include "builder.h"
#include "log.h"

#define READ_BYTES (UINT32_C (1) << 20)
#define ALIGN_MAX_BYTES (UINT32_C (64) << 10) /* nbdkit's bound */
#define READ_GAP_BYTES (UINT32_C (32) << 10)

struct builder {
  const struct source *source;
  ZSTD_CCtx *cctx;
  unsigned char *body, *read_buffer, *frame;
  size_t data_start;            /* in body */

  /* The frame being built. */
  extents planned;
  uint32_t nr_extents;          /* in the table */
  struct extent last;           /* of them */
  size_t data_bytes;
  uint64_t zero_bytes;
};

static size_t
table_max (uint32_t batch_bytes)
{
  return (size_t) plan_built_extents_max (batch_bytes) * EXTENT_BYTES;
}

/* The most that is read at once, and the buffer that this takes. */
static uint32_t
read_max (uint32_t batch_bytes)
{
  return batch_bytes < READ_BYTES ? batch_bytes : READ_BYTES;
}

static size_t
read_buffer_bytes (uint32_t batch_bytes)
{
  return read_max (batch_bytes) + 2 * ALIGN_MAX_BYTES;
}

size_t
builder_frame_max (uint32_t batch_bytes)
{
  return frame_bound (plan_built_bytes_max (batch_bytes));
}

size_t
builder_bytes (uint32_t batch_bytes, int level)
{
  size_t body = plan_built_bytes_max (batch_bytes);
  ZSTD_compressionParameters params = ZSTD_getCParams (level, body, 0);

  return body + builder_frame_max (batch_bytes) +
    read_buffer_bytes (batch_bytes) +
    plan_extents_max (batch_bytes) * sizeof (struct extent) * 3 / 2 +
    ZSTD_estimateCCtxSize_usingCParams (params);
}

struct builder *
builder_create (const struct source *source)
{
  struct builder *b = calloc (1, sizeof *b);
  uint32_t batch_bytes = source->plan.batch_bytes;

  if (!b)
    goto err;
  b->source = source;
  b->data_start = table_max (batch_bytes);
  b->cctx = ZSTD_createCCtx ();
  b->body = malloc (plan_built_bytes_max (batch_bytes));
  b->read_buffer = malloc (read_buffer_bytes (batch_bytes));
  b->frame = malloc (builder_frame_max (batch_bytes));
  if (b->cctx && b->body && b->read_buffer && b->frame)
    return b;

 err:
  log_error ("a thread that compresses: out of memory");
  builder_free (b);
  return NULL;
}

void
builder_free (struct builder *b)
{
  if (!b)
    return;
  ZSTD_freeCCtx (b->cctx);
  free (b->body);
  free (b->read_buffer);
  free (b->frame);
  extents_reset (&b->planned);
  free (b);
}

/* Add a range to the table, growing its last extent where that fits. */
static void
add_extent (struct builder *b, uint64_t offset, uint64_t length,
            enum extent_kind kind)
{
  struct extent *last = &b->last;

  if (b->nr_extents > 0 && last->kind == kind &&
      last->offset + last->length == offset)
    last->length += length;
  else {
    *last = (struct extent) { .offset = offset, .length = length,
                              .kind = kind };
    b->nr_extents++;
  }
  extent_encode (last, b->body + (size_t) (b->nr_extents - 1) * EXTENT_BYTES);
  if (kind == EXTENT_ZERO)
    b->zero_bytes += length;
}

static bool
is_zero (const unsigned char *p, size_t n)
{
  return p[0] == 0 && memcmp (p, p + 1, n - 1) == 0;
}

/* Add what was read of [offset, end), block by block of the disk. */
static void
add_data (struct builder *b, const unsigned char *p, uint64_t offset,
          uint64_t end)
{
  while (offset < end) {
    uint64_t n = ZERO_BLOCK_BYTES - offset % ZERO_BLOCK_BYTES;

    if (n > end - offset)
      n = end - offset;
    if (is_zero (p, n))
      add_extent (b, offset, n, EXTENT_ZERO);
    else {
      add_extent (b, offset, n, EXTENT_DATA);
      memcpy (b->body + b->data_start + b->data_bytes, p, n);
      b->data_bytes += n;
    }
    p += n;
    offset += n;
  }
}

/* Where the read that starts at 'offset' in planned extent i ends: it
 * takes the data extents behind it in as well while the gaps are small.
 */
static uint64_t
read_end (const struct builder *b, size_t i, uint64_t offset)
{
  const struct extent *e = &b->planned.ptr[i];
  uint64_t limit = (offset + read_max (b->source->plan.batch_bytes)) &
    -(uint64_t) ZERO_BLOCK_BYTES;
  uint64_t end = e->offset + e->length;

  while (end < limit && ++i < b->planned.len) {
    e = &b->planned.ptr[i];
    if (e->offset - end > READ_GAP_BYTES || e->offset >= limit)
      break;
    if (e->kind == EXTENT_DATA)
      end = e->offset + e->length;
  }
  return end < limit ? end : limit;
}

/* Read [offset, end) and a little around it, as the source's alignment
 * wants; *ret_data is where offset is.
 */
static int
read_source (struct builder *b, uint64_t offset, uint64_t end,
             const unsigned char **ret_data, uint64_t *read_bytes, int *err)
{
  const struct source *s = b->source;
  uint64_t first = offset & -(uint64_t) s->align;
  uint64_t behind = (end + s->align - 1) & -(uint64_t) s->align;

  if (behind > s->size)
    behind = s->size;
  *err = EIO;
  if (s->next->pread (s->next, b->read_buffer, behind - first, first, 0,
                      err) == -1) {
    if (*err == 0)
      *err = EIO;
    log_error ("reading the disk at %" PRIu64 ", %" PRIu64 " bytes: %s",
               first, behind - first, strerror (*err));
    return -1;
  }
  *read_bytes += behind - first;
  *ret_data = b->read_buffer + (offset - first);
  return 0;
}

static int
read_batch (struct builder *b, atomic_bool *stop, uint64_t *read_bytes,
            int *err)
{
  const unsigned char *data = NULL;
  uint64_t start = 0, end = 0;  /* of the disk in the read buffer */

  for (size_t i = 0; i < b->planned.len; i++) {
    const struct extent *e = &b->planned.ptr[i];
    uint64_t offset = e->offset, extent_end = e->offset + e->length;

    if (e->kind == EXTENT_ZERO) {
      add_extent (b, offset, e->length, EXTENT_ZERO);
      continue;
    }
    while (offset < extent_end) {
      uint64_t n;

      if (offset >= end) {
        if (atomic_load (stop)) {
          *err = ESHUTDOWN;
          return -1;
        }
        start = offset;
        end = read_end (b, i, offset);
        if (read_source (b, start, end, &data, read_bytes, err) == -1)
          return -1;
      }
      n = extent_end < end ? extent_end : end;
      add_data (b, data + (offset - start), offset, n);
      offset = n;
    }
  }
  return 0;
}

int
builder_build (struct builder *b, uint64_t k, int level, atomic_bool *stop,
               struct built *ret, uint64_t *read_bytes, int *err)
{
  struct envelope env = { .index = k, .session = b->source->session,
                          .kind = FRAME_BATCH };
  size_t table, bytes;
  unsigned char *start;

  b->planned.len = 0;
  b->nr_extents = 0;
  b->data_bytes = 0;
  b->zero_bytes = 0;
  *err = ENOMEM;
  if (plan_batch (&b->source->plan, k, &b->planned) == -1 ||
      read_batch (b, stop, read_bytes, err) == -1)
    return -1;

  table = (size_t) b->nr_extents * EXTENT_BYTES;
  start = b->body + b->data_start - table;
  memmove (start, b->body, table);
  env.nr_extents = b->nr_extents;
  env.unpacked_bytes = table + b->data_bytes;
  bytes = frame_pack (&env, start, b->cctx, level, b->frame);
  if (bytes == 0) {
    *err = EIO;
    return -1;
  }
  *ret = (struct built) {
    .frame = b->frame, .bytes = bytes,
    .data_bytes = b->data_bytes, .zero_bytes = b->zero_bytes,
  };
  return 0;
}
