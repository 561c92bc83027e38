/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wire-make [OPTIONS] DISK WIRE: an independent sender for tests of the
 * receiver.  Writes the wire export of a raw disk image as a sparse file, to
 * be copied with nbdcopy, and can damage it in the ways that a hostile or
 * broken sender would.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <zstd.h>

#include "frame.h"
#include "json.h"
#include "session-record.h"

static struct session_record record = { .pass = 1, .final = true };
static const char *disk_path, *wire_path, *extents_path, *raw_record;
static uint64_t session, size, batch = 4 << 20, lie_frames = UINT64_MAX;
static int level = 1;
static bool stored, keep_zeroes;
static uint64_t flip_frame = UINT64_MAX, flip_byte;
static uint64_t cut_frame = UINT64_MAX, claim_frame = UINT64_MAX, claim;
static uint64_t beyond_frame = UINT64_MAX, alien_frame = UINT64_MAX;

static int disk_fd, wire_fd;
static struct ZSTD_CCtx_s *cctx;
static extents plan;

/* The batch that is being filled. */
static extents table;
static unsigned char *data, *body, *frame;
static uint64_t data_bytes;

static void __attribute__ ((noreturn))
die (const char *what)
{
  fprintf (stderr, "wire-make: %s: %s\n", what, strerror (errno));
  exit (1);
}

static void
write_at (const void *buf, size_t n, uint64_t offset)
{
  if (pwrite (wire_fd, buf, n, offset) != (ssize_t) n)
    die (wire_path);
}

static void
damage (uint64_t index, size_t *n)
{
  uint64_t le;

  if (index == flip_frame)
    frame[flip_byte < *n ? flip_byte : *n - 1] ^= 0x10;
  if (index == cut_frame)
    *n -= (*n - ENVELOPE_BYTES) / 2;
  if (index == claim_frame) {
    le = htole64 (claim);
    memcpy (frame + 32, &le, 8);
    memcpy (frame + 40, &le, 8);
  }
}

static void
put_frame (struct envelope *env)
{
  size_t n = frame_pack (env, body, env->kind == FRAME_BATCH && !stored
                         ? cctx : NULL, level, frame);

  if (n == 0)
    exit (1);
  damage (env->index, &n);
  write_at (frame, n, env->index * SLOT_BYTES);
}

static void
end_batch (void)
{
  struct envelope env = { .session = session, .kind = FRAME_BATCH,
                          .nr_extents = table.len };

  if (table.len == 0)
    return;
  env.index = ++record.frames;
  if (env.index == alien_frame)
    env.session++;
  for (size_t i = 0; i < table.len; i++) {
    struct extent e = table.ptr[i];

    if (env.index == beyond_frame && i == table.len - 1)
      e.offset = size - e.length + 512;
    extent_encode (&e, body + i * EXTENT_BYTES);
  }
  memcpy (body + table.len * EXTENT_BYTES, data, data_bytes);
  env.unpacked_bytes = table.len * EXTENT_BYTES + data_bytes;
  put_frame (&env);
  record.data_bytes += data_bytes;
  table.len = 0;
  data_bytes = 0;
}

static void
add_extent (struct extent e)
{
  struct extent *last = table.len ? &table.ptr[table.len - 1] : NULL;

  if (last && last->kind == e.kind && last->offset + last->length == e.offset)
    last->length += e.length;
  else if (extents_append (&table, e) == -1)
    die ("extents");
  if (table.len == EXTENTS_MAX || data_bytes >= batch)
    end_batch ();
}

static void
add_data (uint64_t offset, uint64_t length)
{
  static const unsigned char zeroes[ZERO_BLOCK_BYTES];

  while (length > 0) {
    size_t n = ZERO_BLOCK_BYTES - offset % ZERO_BLOCK_BYTES;

    if (n > length)
      n = length;
    if (n > batch - data_bytes)
      n = batch - data_bytes;
    if (pread (disk_fd, data + data_bytes, n, offset) != (ssize_t) n)
      die (disk_path);
    if (!keep_zeroes && memcmp (data + data_bytes, zeroes, n) == 0)
      add_extent ((struct extent) { offset, n, EXTENT_ZERO });
    else {
      data_bytes += n;
      add_extent ((struct extent) { offset, n, EXTENT_DATA });
    }
    offset += n;
    length -= n;
  }
}

static void
read_plan (void)
{
  FILE *fp = fopen (extents_path, "r");
  char kind[8];
  struct extent e;

  if (!fp)
    die (extents_path);
  while (fscanf (fp, "%" SCNu64 " %" SCNu64 " %7s", &e.offset, &e.length,
                 kind) == 3) {
    e.kind = strcmp (kind, "zero") == 0 ? EXTENT_ZERO : EXTENT_DATA;
    if (extents_append (&plan, e) == -1)
      die ("plan");
  }
  fclose (fp);
}

/* All of the disk: its holes are zeroes. */
static void
make_plan (void)
{
  uint64_t at = 0;

  while (at < size) {
    off_t start = lseek (disk_fd, at, SEEK_DATA), end;

    if (start == -1)
      start = size;
    if ((uint64_t) start > at &&
        extents_append (&plan, (struct extent) {
            at, start - at, EXTENT_ZERO }) == -1)
      die ("plan");
    if ((uint64_t) start == size)
      break;
    end = lseek (disk_fd, start, SEEK_HOLE);
    if (extents_append (&plan, (struct extent) {
          start, end - start, EXTENT_DATA }) == -1)
      die ("plan");
    at = end;
  }
}

static void
put_record (void)
{
  struct envelope env = { .session = session, .kind = FRAME_SESSION };
  char *text;
  json_t *json;
  uint64_t frames = record.frames;

  if (lie_frames != UINT64_MAX)
    record.frames = lie_frames;
  json = session_record_encode (&record);
  text = raw_record ? strdup (raw_record) : json_dumps (json, 0);
  json_decref (json);
  record.frames = frames;
  env.unpacked_bytes = strlen (text);
  memcpy (body, text, env.unpacked_bytes);
  free (text);
  put_frame (&env);
}

static void
pair (char *arg, uint64_t *a, uint64_t *b)
{
  *a = strtoull (arg, &arg, 0);
  *b = *arg == ':' ? strtoull (arg + 1, NULL, 0) : 0;
}

static void
set_disks (char *arg)
{
  for (char *s = strtok (arg, ","); s; s = strtok (NULL, ","))
    if (strings_append (&record.disks, strdup (s)) == -1)
      die ("disks");
}

enum { CHAIN = 256, BASE, TARGET, DISK, DISKS, PASS, NOT_FINAL, SESSION,
       CLUSTER, SIZE, FRAMES, EXTENTS, BATCH, LEVEL, STORED, KEEP, FLIP, CUT,
       CLAIM, BEYOND, ALIEN, RECORD };

static const struct option options[] = {
  { "chain", 1, 0, CHAIN }, { "base", 1, 0, BASE },
  { "target", 1, 0, TARGET }, { "disk", 1, 0, DISK },
  { "disks", 1, 0, DISKS }, { "pass", 1, 0, PASS },
  { "not-final", 0, 0, NOT_FINAL }, { "session", 1, 0, SESSION },
  { "cluster-size", 1, 0, CLUSTER }, { "size", 1, 0, SIZE },
  { "frames", 1, 0, FRAMES }, { "extents", 1, 0, EXTENTS },
  { "batch", 1, 0, BATCH }, { "level", 1, 0, LEVEL },
  { "stored", 0, 0, STORED }, { "keep-zeroes", 0, 0, KEEP },
  /* Damage: FRAME, or FRAME:NUMBER. */
  { "flip", 1, 0, FLIP }, { "cut", 1, 0, CUT }, { "claim", 1, 0, CLAIM },
  { "beyond", 1, 0, BEYOND }, { "alien", 1, 0, ALIEN },
  { "record", 1, 0, RECORD },
  { 0 }
};

static void
set_option (int c)
{
  switch (c) {
  case CHAIN: snprintf (record.chain, sizeof record.chain, "%s", optarg); break;
  case BASE: record.base = strtoull (optarg, NULL, 0); break;
  case TARGET: record.target = strtoull (optarg, NULL, 0); break;
  case DISK: snprintf (record.disk, sizeof record.disk, "%s", optarg); break;
  case DISKS: set_disks (optarg); break;
  case PASS: record.pass = strtoull (optarg, NULL, 0); break;
  case NOT_FINAL: record.final = false; break;
  case SESSION: session = strtoull (optarg, NULL, 16); break;
  case CLUSTER: record.cluster_size = strtoull (optarg, NULL, 0); break;
  case SIZE: size = strtoull (optarg, NULL, 0); break;
  case FRAMES: lie_frames = strtoull (optarg, NULL, 0); break;
  case EXTENTS: extents_path = optarg; break;
  case BATCH: batch = strtoull (optarg, NULL, 0); break;
  case LEVEL: level = atoi (optarg); break;
  case STORED: stored = true; break;
  case KEEP: keep_zeroes = true; break;
  case FLIP: pair (optarg, &flip_frame, &flip_byte); break;
  case CUT: cut_frame = strtoull (optarg, NULL, 0); break;
  case CLAIM: pair (optarg, &claim_frame, &claim); break;
  case BEYOND: beyond_frame = strtoull (optarg, NULL, 0); break;
  case ALIEN: alien_frame = strtoull (optarg, NULL, 0); break;
  case RECORD: raw_record = optarg; break;
  default: exit (2);
  }
}

int
main (int argc, char *argv[])
{
  struct stat st;
  int c;

  if (random_u64 (&session) == -1 || uuid_generate (record.chain) == -1)
    exit (1);
  strcpy (record.disk, "disk");
  record.started = time (NULL);
  record.source = strdup ("wire-make");
  while ((c = getopt_long (argc, argv, "", options, NULL)) != -1)
    set_option (c);
  if (argc - optind != 2)
    exit (2);
  disk_path = argv[optind];
  wire_path = argv[optind + 1];
  if (record.disks.len == 0 &&
      strings_append (&record.disks, strdup (record.disk)) == -1)
    die ("disks");

  disk_fd = open (disk_path, O_RDONLY);
  if (disk_fd == -1 || fstat (disk_fd, &st) == -1)
    die (disk_path);
  if (size == 0)
    size = st.st_size;
  record.size = size;
  wire_fd = open (wire_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (wire_fd == -1)
    die (wire_path);
  cctx = ZSTD_createCCtx ();
  data = malloc (BATCH_MAX_BYTES);
  body = malloc (UNPACKED_MAX_BYTES);
  frame = malloc (frame_bound (UNPACKED_MAX_BYTES));
  if (!cctx || !data || !body || !frame)
    die ("memory");

  if (extents_path)
    read_plan ();
  else
    make_plan ();
  for (size_t i = 0; i < plan.len; i++)
    if (plan.ptr[i].kind == EXTENT_DATA)
      add_data (plan.ptr[i].offset, plan.ptr[i].length);
    else
      add_extent (plan.ptr[i]);
  end_batch ();
  put_record ();
  if (ftruncate (wire_fd, (record.frames + 1) * SLOT_BYTES) == -1 ||
      close (wire_fd) == -1)
    die (wire_path);
  session_record_reset (&record);
  extents_reset (&plan);
  extents_reset (&table);
  ZSTD_freeCCtx (cctx);
  free (data);
  free (body);
  free (frame);
  return 0;
}
