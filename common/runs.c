/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A compact list of runs.  Each run is two numbers: the gap to the run
 * before it, and its length with the two flag bits below.  A number is
 * stored in 512-byte units with a 0 bit below if it is a multiple of 512,
 * else in bytes with a 1 bit, seven bits to a byte, low ones first, the
 * top bit set where more follow.  A run of 4 KiB behind a small gap takes
 * two bytes.
 *
 * No locks: a list that is complete is only read.
 */
#include <config.h>

#include <assert.h>

#include "runs.h"

static uint64_t
pack_number (uint64_t v)
{
  return v % 512 == 0 ? v / 512 << 1 : v << 1 | 1;
}

static uint64_t
unpack_number (uint64_t v)
{
  return v & 1 ? v >> 1 : (v >> 1) * 512;
}

static int
put_number (run_bytes *bytes, uint64_t v)
{
  do {
    unsigned char b = (v & 0x7f) | (v > 0x7f ? 0x80 : 0);

    if (run_bytes_append (bytes, b) == -1)
      return -1;
    v >>= 7;
  } while (v > 0);
  return 0;
}

static uint64_t
get_number (const run_bytes *bytes, size_t *at)
{
  uint64_t v = 0;

  for (unsigned shift = 0; ; shift += 7) {
    unsigned char b = bytes->ptr[(*at)++];

    v |= (uint64_t) (b & 0x7f) << shift;
    if (!(b & 0x80))
      return v;
  }
}

int
runs_append (struct runs *runs, uint64_t offset, uint64_t length,
             unsigned flags)
{
  assert (length > 0 && offset >= runs->end && flags <= 3);
  /* Disks are smaller than 2^60 bytes, so three bits are to spare. */
  assert (length < UINT64_C (1) << 60);

  if (put_number (&runs->bytes, pack_number (offset - runs->end)) == -1 ||
      put_number (&runs->bytes, pack_number (length) << 2 | flags) == -1)
    return -1;
  runs->end = offset + length;
  runs->count++;
  runs->total += length;
  return 0;
}

void
runs_reset (struct runs *runs)
{
  run_bytes_reset (&runs->bytes);
  memset (runs, 0, sizeof *runs);
}

bool
runs_next (const struct runs *runs, struct run_pos *pos, struct run *ret)
{
  uint64_t v;

  if (pos->byte == runs->bytes.len)
    return false;
  ret->offset = pos->end + unpack_number (get_number (&runs->bytes,
                                                      &pos->byte));
  v = get_number (&runs->bytes, &pos->byte);
  ret->flags = v & 3;
  ret->length = unpack_number (v >> 2);
  pos->end = ret->offset + ret->length;
  return true;
}
