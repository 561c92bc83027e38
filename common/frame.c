/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Packing, checking and unpacking of frames: pure functions on memory.
 * Decoding trusts nothing: every length is compared with a bound of
 * frame.h before it is used, and an extent with the size of the disk.
 */
#include <config.h>

#include <endian.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* XXH3_state_t on the stack */
#include <xxhash.h>
#include <zstd.h>

#include "frame.h"
#include "log.h"

static const unsigned char magic[8] = "NBDSYNC1";
static const unsigned char no_sum[16];

enum { AT_INDEX = 8, AT_SESSION = 16, AT_KIND = 24, AT_CODEC = 26,
       AT_EXTENTS = 28, AT_PACKED = 32, AT_UNPACKED = 40, AT_SUM = 48 };

static void
put64 (unsigned char *p, uint64_t v)
{
  v = htole64 (v);
  memcpy (p, &v, sizeof v);
}

static void
put32 (unsigned char *p, uint32_t v)
{
  v = htole32 (v);
  memcpy (p, &v, sizeof v);
}

static void
put16 (unsigned char *p, uint16_t v)
{
  v = htole16 (v);
  memcpy (p, &v, sizeof v);
}

static uint64_t
get64 (const unsigned char *p)
{
  uint64_t v;
  memcpy (&v, p, sizeof v);
  return le64toh (v);
}

static uint32_t
get32 (const unsigned char *p)
{
  uint32_t v;
  memcpy (&v, p, sizeof v);
  return le32toh (v);
}

static uint16_t
get16 (const unsigned char *p)
{
  uint16_t v;
  memcpy (&v, p, sizeof v);
  return le16toh (v);
}

static void
frame_sum (const unsigned char *frame, size_t packed_bytes,
           unsigned char ret[16])
{
  XXH3_state_t state;
  XXH128_canonical_t canonical;

  XXH3_128bits_reset (&state);
  XXH3_128bits_update (&state, frame, AT_SUM);
  XXH3_128bits_update (&state, no_sum, sizeof no_sum);
  XXH3_128bits_update (&state, frame + ENVELOPE_BYTES, packed_bytes);
  XXH128_canonicalFromHash (&canonical, XXH3_128bits_digest (&state));
  memcpy (ret, canonical.digest, 16);
}

size_t
frame_bound (size_t unpacked_bytes)
{
  return ENVELOPE_BYTES + ZSTD_compressBound (unpacked_bytes);
}

void
extent_encode (const struct extent *e, unsigned char out[EXTENT_BYTES])
{
  put64 (out, e->offset);
  put64 (out + 8, e->length);
  put32 (out + 16, e->kind);
  put32 (out + 20, 0);
}

size_t
frame_pack (struct envelope *env, const unsigned char *body,
            struct ZSTD_CCtx_s *cctx, int level, unsigned char *out)
{
  size_t n = 0;

  env->codec = CODEC_NONE;
  if (cctx && env->unpacked_bytes > 0) {
    n = ZSTD_compressCCtx (cctx, out + ENVELOPE_BYTES,
                           ZSTD_compressBound (env->unpacked_bytes),
                           body, env->unpacked_bytes, level);
    if (ZSTD_isError (n)) {
      log_error ("zstd: %s", ZSTD_getErrorName (n));
      return 0;
    }
    if (n < env->unpacked_bytes)
      env->codec = CODEC_ZSTD;
  }
  if (env->codec == CODEC_NONE) {
    n = env->unpacked_bytes;
    memcpy (out + ENVELOPE_BYTES, body, n);
  }
  env->packed_bytes = n;

  memcpy (out, magic, sizeof magic);
  put64 (out + AT_INDEX, env->index);
  put64 (out + AT_SESSION, env->session);
  put16 (out + AT_KIND, env->kind);
  put16 (out + AT_CODEC, env->codec);
  put32 (out + AT_EXTENTS, env->nr_extents);
  put64 (out + AT_PACKED, env->packed_bytes);
  put64 (out + AT_UNPACKED, env->unpacked_bytes);
  frame_sum (out, n, env->sum);
  memcpy (out + AT_SUM, env->sum, sizeof env->sum);
  return ENVELOPE_BYTES + n;
}

const char *
envelope_decode (const unsigned char in[ENVELOPE_BYTES], uint64_t index,
                 struct envelope *ret)
{
  uint64_t packed = get64 (in + AT_PACKED);
  uint64_t unpacked = get64 (in + AT_UNPACKED);
  uint16_t kind = get16 (in + AT_KIND);
  uint16_t codec = get16 (in + AT_CODEC);
  uint32_t nr_extents = get32 (in + AT_EXTENTS);

  if (memcmp (in, magic, sizeof magic) != 0)
    return "no frame: the magic is not NBDSYNC1";
  if (get64 (in + AT_INDEX) != index)
    return "a frame in the wrong slot";
  if (codec != CODEC_NONE && codec != CODEC_ZSTD)
    return "unknown codec";
  if (packed > unpacked || (codec == CODEC_NONE && packed != unpacked))
    return "packed and unpacked lengths contradict each other";

  if (index == 0) {
    if (kind != FRAME_SESSION || codec != CODEC_NONE || nr_extents != 0)
      return "slot 0 holds no session record";
    if (unpacked == 0 || unpacked > RECORD_MAX_BYTES)
      return "the session record is empty or too long";
  }
  else {
    if (kind != FRAME_BATCH)
      return "unknown kind of frame";
    if (nr_extents == 0 || nr_extents > EXTENTS_MAX)
      return "a batch without extents, or with too many";
    if (unpacked < (uint64_t) nr_extents * EXTENT_BYTES ||
        unpacked - (uint64_t) nr_extents * EXTENT_BYTES > BATCH_MAX_BYTES)
      return "the batch is too long or too short";
  }

  *ret = (struct envelope) {
    .index = index,
    .session = get64 (in + AT_SESSION),
    .kind = kind,
    .codec = codec,
    .nr_extents = nr_extents,
    .packed_bytes = packed,
    .unpacked_bytes = unpacked,
  };
  memcpy (ret->sum, in + AT_SUM, sizeof ret->sum);
  return NULL;
}

bool
frame_sum_ok (const struct envelope *env, const unsigned char *frame)
{
  unsigned char sum[16];

  frame_sum (frame, env->packed_bytes, sum);
  return memcmp (sum, env->sum, sizeof sum) == 0;
}

const char *
frame_unpack (const struct envelope *env, const unsigned char *frame,
              uint64_t disk_bytes, struct ZSTD_DCtx_s *dctx,
              unsigned char *body, extents *ret_extents,
              const unsigned char **ret_data)
{
  const unsigned char *packed = frame + ENVELOPE_BYTES;
  size_t table = (size_t) env->nr_extents * EXTENT_BYTES;
  uint64_t data = 0, end = 0;

  if (env->codec == CODEC_NONE)
    memcpy (body, packed, env->unpacked_bytes);
  else {
    /* One zstd frame that says its length, and nothing behind it. */
    if (ZSTD_getFrameContentSize (packed, env->packed_bytes) !=
        env->unpacked_bytes ||
        ZSTD_findFrameCompressedSize (packed, env->packed_bytes) !=
        env->packed_bytes ||
        ZSTD_decompressDCtx (dctx, body, env->unpacked_bytes,
                             packed, env->packed_bytes) !=
        env->unpacked_bytes)
      return "zstd cannot unpack the batch";
  }

  for (uint32_t i = 0; i < env->nr_extents; i++) {
    const unsigned char *p = body + (size_t) i * EXTENT_BYTES;
    struct extent e = { .offset = get64 (p), .length = get64 (p + 8) };
    uint32_t kind = get32 (p + 16);

    if (kind != EXTENT_DATA && kind != EXTENT_ZERO)
      return "unknown kind of extent";
    if (e.length == 0 || e.offset > disk_bytes ||
        e.length > disk_bytes - e.offset)
      return "an extent is beyond the end of the disk";
    if (e.offset < end)
      return "extents overlap or are not in order";
    e.kind = kind;
    end = e.offset + e.length;
    if (e.kind == EXTENT_DATA)
      data += e.length;
    if (extents_append (ret_extents, e) == -1)
      return "out of memory";
  }
  if (data != env->unpacked_bytes - table)
    return "the extents do not add up to the data";
  *ret_data = body + table;
  return NULL;
}
