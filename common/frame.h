/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire format: slots, frames, extents.  nbdsync-formats(5) is the
 * reference; constants that both ends must share stand here only.
 *
 * A frame on the wire, little endian:
 *
 *   offset bytes
 *     0      8    magic "NBDSYNC1"
 *     8      8    frame index = slot number; 0 is the session record
 *    16      8    session id, random, the same for all frames of a session
 *    24      2    kind (enum frame_kind)
 *    26      2    codec (enum frame_codec)
 *    28      4    number of extents
 *    32      8    packed bytes that follow the envelope
 *    40      8    bytes after unpacking
 *    48     16    XXH3-128, canonical form, of the envelope with this field
 *                 zero, and the packed bytes
 *    64           packed bytes
 *
 * Unpacked, a batch is a table of extents, 24 bytes each (offset u64,
 * length u64, kind u32, zero u32), in ascending order without overlaps,
 * followed by the data of the data extents in the same order.  A session
 * record is JSON (session-record.h), without extents, never compressed.
 *
 * Nothing here allocates by what a peer claims beyond the bounds below.
 * All functions are thread-safe as long as each thread has its own context.
 */
#ifndef NBDSYNC_FRAME_H
#define NBDSYNC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vector.h"

#define WIRE_FORMAT 1
#define SLOT_BYTES (UINT64_C (128) << 20) /* nbdcopy's work range */
#define ENVELOPE_BYTES 64
#define EXTENT_BYTES 24
#define ZERO_BLOCK_BYTES 4096   /* zero runs are dropped in this unit */

#define BATCH_MIN_BYTES (UINT32_C (64) << 10)
#define BATCH_MAX_BYTES (UINT32_C (32) << 20)
#define EXTENTS_MAX UINT32_C (131072)
#define RECORD_MAX_BYTES (UINT32_C (1) << 20)
#define UNPACKED_MAX_BYTES (BATCH_MAX_BYTES + EXTENTS_MAX * EXTENT_BYTES)
#define FRAME_MAX_BYTES (ENVELOPE_BYTES + UNPACKED_MAX_BYTES)

#define LEVEL_MIN (-7)
#define LEVEL_MAX 19

enum frame_kind { FRAME_SESSION = 1, FRAME_BATCH = 2 };
enum frame_codec { CODEC_NONE = 0, CODEC_ZSTD = 1 };
enum extent_kind { EXTENT_DATA = 1, EXTENT_ZERO = 2 };

struct envelope {
  uint64_t index;
  uint64_t session;
  enum frame_kind kind;
  enum frame_codec codec;
  uint32_t nr_extents;
  uint32_t packed_bytes;
  uint32_t unpacked_bytes;
  unsigned char sum[16];
};

struct extent {
  uint64_t offset, length;      /* bytes of the disk; length > 0 */
  enum extent_kind kind;
};
DEFINE_VECTOR (extents, struct extent)

/* Pack a frame.  'body' holds nr_extents * EXTENT_BYTES (see
 * extent_encode) and the data, or the session record; env->index, session,
 * kind and nr_extents are the caller's, unpacked_bytes its length.  cctx
 * is a ZSTD_CCtx, or NULL to store as it is; a body that zstd cannot
 * shrink is stored as well.  'out' has room for frame_bound (unpacked)
 * bytes.  Sets the other members of env and returns the length of the
 * whole frame, or 0 (with a message) if zstd fails.
 */
struct ZSTD_CCtx_s;
size_t frame_pack (struct envelope *env, const unsigned char *body,
                   struct ZSTD_CCtx_s *cctx, int level, unsigned char *out);
size_t frame_bound (size_t unpacked_bytes);

void extent_encode (const struct extent *e, unsigned char out[EXTENT_BYTES]);

/* Decode and bound-check the 64 bytes of an envelope that belongs to slot
 * 'index'.  Returns NULL, or what is wrong with it (a constant string).
 */
const char *envelope_decode (const unsigned char in[ENVELOPE_BYTES],
                             uint64_t index, struct envelope *ret);

/* Does the checksum agree with these env->packed_bytes + ENVELOPE_BYTES? */
bool frame_sum_ok (const struct envelope *env, const unsigned char *frame);

/* Unpack a batch whose checksum is right into 'body', which has room for
 * env->unpacked_bytes, check each extent against the size of the disk and
 * append them to *ret_extents; the data starts at *ret_data inside body.
 * dctx is a ZSTD_DCtx.  Returns NULL, or what is wrong with it (a constant
 * string); then *ret_extents may hold some of the extents.
 */
struct ZSTD_DCtx_s;
const char *frame_unpack (const struct envelope *env,
                          const unsigned char *frame, uint64_t disk_bytes,
                          struct ZSTD_DCtx_s *dctx, unsigned char *body,
                          extents *ret_extents,
                          const unsigned char **ret_data);

#endif /* NBDSYNC_FRAME_H */
