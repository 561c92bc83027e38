/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The frame codec and the session record: what is packed comes back, and
 * no bent input passes.
 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "frame.h"
#include "json.h"
#include "session-record.h"

#define DISK (UINT64_C (1) << 30)

#define CHECK(cond)                                                     \
  do {                                                                  \
    if (!(cond)) {                                                      \
      fprintf (stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);       \
      exit (EXIT_FAILURE);                                              \
    }                                                                   \
  } while (0)

static ZSTD_CCtx *cctx;
static ZSTD_DCtx *dctx;

/* Unpack as a receiver does; NULL or what is wrong. */
static const char *
receive (const unsigned char *frame, size_t len, uint64_t index,
         extents *ret_extents, unsigned char *body,
         const unsigned char **data)
{
  struct envelope env;
  const char *wrong;

  if (len < ENVELOPE_BYTES)
    return "short";
  wrong = envelope_decode (frame, index, &env);
  if (wrong)
    return wrong;
  if (len != ENVELOPE_BYTES + env.packed_bytes)
    return "length";
  if (!frame_sum_ok (&env, frame))
    return "sum";
  return frame_unpack (&env, frame, DISK, dctx, body, ret_extents, data);
}

static size_t
make_frame (const struct extent *e, uint32_t n, const unsigned char *data,
            size_t data_bytes, int level, unsigned char **ret)
{
  size_t table = (size_t) n * EXTENT_BYTES;
  unsigned char *body = malloc (table + data_bytes);
  struct envelope env = { .index = 7, .session = 99, .kind = FRAME_BATCH,
                          .nr_extents = n,
                          .unpacked_bytes = table + data_bytes };

  for (uint32_t i = 0; i < n; i++)
    extent_encode (&e[i], body + i * EXTENT_BYTES);
  if (data_bytes)
    memcpy (body + table, data, data_bytes);
  *ret = malloc (frame_bound (env.unpacked_bytes));
  size_t len = frame_pack (&env, body, cctx, level, *ret);
  CHECK (len > 0 && len <= FRAME_MAX_BYTES);
  free (body);
  return len;
}

static void
test_roundtrip (bool random_data)
{
  const struct extent e[] = {
    { 0, 4096, EXTENT_DATA }, { 4096, 1 << 20, EXTENT_ZERO },
    { 2 << 20, 512, EXTENT_DATA }, { DISK - 8192, 8192, EXTENT_DATA },
  };
  size_t bytes = 4096 + 512 + 8192;
  unsigned char *data = malloc (bytes), *frame, *body = malloc (1 << 20);
  const unsigned char *got;
  extents list = { 0 };

  for (size_t i = 0; i < bytes; i++)
    data[i] = random_data ? (unsigned) rand () : i / 512;
  size_t len = make_frame (e, 4, data, bytes, 3, &frame);
  CHECK (frame[26] == (random_data ? CODEC_NONE : CODEC_ZSTD));
  CHECK (receive (frame, len, 7, &list, body, &got) == NULL);
  CHECK (list.len == 4);
  for (size_t i = 0; i < 4; i++)
    CHECK (list.ptr[i].offset == e[i].offset &&
           list.ptr[i].length == e[i].length &&
           list.ptr[i].kind == e[i].kind);
  CHECK (memcmp (got, data, bytes) == 0);
  CHECK (receive (frame, len, 8, &list, body, &got) != NULL);

  /* Every single bit that is flipped is noticed. */
  for (size_t bit = 0; bit < len * 8; bit++) {
    frame[bit / 8] ^= 1 << (bit % 8);
    extents_reset (&list);
    CHECK (receive (frame, len, 7, &list, body, &got) != NULL);
    frame[bit / 8] ^= 1 << (bit % 8);
  }
  for (size_t cut = 0; cut < len; cut++) {
    extents_reset (&list);
    CHECK (receive (frame, cut, 7, &list, body, &got) != NULL);
  }
  extents_reset (&list);
  free (data);
  free (frame);
  free (body);
}

/* Extents that no honest sender makes, in frames with right checksums. */
static void
test_bad_extents (void)
{
  static const struct { struct extent e[2]; uint32_t n; } bad[] = {
    { { { DISK, 1, EXTENT_ZERO } }, 1 },
    { { { DISK - 1, 2, EXTENT_ZERO } }, 1 },
    { { { UINT64_MAX, UINT64_MAX, EXTENT_ZERO } }, 1 },
    { { { 1, UINT64_MAX, EXTENT_ZERO } }, 1 },
    { { { 0, 0, EXTENT_ZERO } }, 1 },
    { { { 0, 512, 3 } }, 1 },
    { { { 0, 1024, EXTENT_DATA } }, 1 },   /* more than the data */
    { { { 0, 256, EXTENT_DATA } }, 1 },    /* less */
    { { { 0, 512, EXTENT_DATA }, { 511, 1, EXTENT_ZERO } }, 2 },
    { { { 4096, 512, EXTENT_DATA }, { 0, 1, EXTENT_ZERO } }, 2 },
  };
  unsigned char data[512] = { 1 }, body[4096], *frame;
  const unsigned char *got;

  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    extents list = { 0 };
    size_t len = make_frame (bad[i].e, bad[i].n, data, sizeof data, 1,
                             &frame);
    CHECK (receive (frame, len, 7, &list, body, &got) != NULL);
    extents_reset (&list);
    free (frame);
  }
}

static void
test_record (void)
{
  struct session_record r = { .base = 4, .target = 5, .size = DISK,
                              .frames = 3, .data_bytes = 4096, .pass = 1,
                              .final = true, .started = 1 };
  struct session_record back;
  static const char *const bent[][2] = {
    { "format", "2" }, { "format", "\"1\"" }, { "chain", "\"x\"" },
    { "disk", "\"../vda\"" }, { "disk", "\"\"" }, { "disk", "\"vdz\"" },
    { "disks", "[]" }, { "disks", "[\"vda\",\"vda\"]" },
    { "disks", "[\"vda\",3]" }, { "disks", "{}" }, { "size", "0" },
    { "size", "513" }, { "size", "-512" }, { "size", "1.5" },
    { "size", "9223372036854775296" },
    { "frames", "-1" }, { "frames", "9223372036854775807" },
    { "pass", "0" }, { "final", "1" }, { "base", "-1" },
    { "base", "\"4\"" }, { "target", "4" }, { "data_bytes", "1073741825" },
    { "cluster_size", "1000" },
  };

  CHECK (uuid_generate (r.chain) == 0 && uuid_ok (r.chain));
  strcpy (r.disk, "vda");
  strings_append (&r.disks, strdup ("vda"));
  strings_append (&r.disks, strdup ("vdb"));
  json_t *json = session_record_encode (&r);
  CHECK (session_record_decode (json, &back) == NULL);
  CHECK (back.base == 4 && back.target == 5 && back.size == DISK &&
         back.frames == 3 && back.disks.len == 2 && back.final &&
         strcmp (back.chain, r.chain) == 0 && !back.source);
  session_record_reset (&back);

  for (size_t i = 0; i < sizeof bent / sizeof bent[0]; i++) {
    json_t *copy = json_deep_copy (json);
    json_object_set_new (copy, bent[i][0],
                         json_loads (bent[i][1], JSON_DECODE_ANY, NULL));
    if (session_record_decode (copy, &back) == NULL) {
      fprintf (stderr, "accepted: %s = %s\n", bent[i][0], bent[i][1]);
      exit (EXIT_FAILURE);
    }
    json_decref (copy);
  }
  json_decref (json);
  session_record_reset (&r);
}

static void
test_names (void)
{
  char longest[DISK_NAME_MAX + 2];

  memset (longest, 'a', sizeof longest);
  longest[DISK_NAME_MAX + 1] = '\0';
  CHECK (!disk_name_ok (longest));
  longest[DISK_NAME_MAX] = '\0';
  CHECK (disk_name_ok (longest));
  CHECK (disk_name_ok ("libvirt-1-format") && disk_name_ok ("#block123"));
  CHECK (!disk_name_ok ("") && !disk_name_ok (".") && !disk_name_ok ("..") &&
         !disk_name_ok ("a/b") && !disk_name_ok ("-x") &&
         !disk_name_ok ("a b") && !disk_name_ok ("\033[1m") &&
         !disk_name_ok ("\303\244"));
}

int
main (void)
{
  cctx = ZSTD_createCCtx ();
  dctx = ZSTD_createDCtx ();
  test_roundtrip (false);
  test_roundtrip (true);
  test_bad_extents ();
  test_record ();
  test_names ();
  ZSTD_freeCCtx (cctx);
  ZSTD_freeDCtx (dctx);
  return 0;
}
