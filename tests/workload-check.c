/* SPDX-License-Identifier: BSD-3-Clause
 *
 * workload check: see workload.c.
 *
 * 'now' is the state of both disks after operation k: for each sector the
 * operation that wrote it, 0 for zeroes.  It only goes forward, from pair to
 * pair.  'before' is what operation k changed on B.  A pair of images is the
 * instant k if
 *   A is now, and B is now but for sectors of k that are still as before, or
 *   B is now, and A is now but for sectors of k + 1 that it has written.
 * The newest writer seen on A tells where to begin: k is not less than one
 * before it.  Operations after it may be trims and zeroes, or writes that
 * such have hidden again, so a few hundred more are tried.
 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "workload.h"

#define MAX_TRIES 300
#define READ_BYTES (4 << 20)

struct disk {
  uint32_t *now, *image;
};

static ops list;
static struct disk disks[2];
static uint32_t sectors;        /* of each disk */
static uint32_t first = 1;      /* number of the log's first operation */
static uint32_t k;              /* first - 1: none of them */
static uint32_t before[OP_MAX_SECTORS];

static bool
has_suffix (const char *path, const char *suffix)
{
  size_t n = strlen (path), m = strlen (suffix);

  return n >= m && strcmp (path + n - m, suffix) == 0;
}

/* Read an image: the writer of each of its sectors. */
static void
read_image (const char *path, struct disk *disk)
{
  static char buffer[READ_BYTES];
  const char *format = has_suffix (path, ".raw") ? "raw" : "qcow2";
  char *argv[] = { "qemu-nbd", "-r", "-f", (char *) format,
                   (char *) path, NULL };
  struct nbd_handle *h = nbd_create ();
  int64_t size;

  if (!h || nbd_connect_systemd_socket_activation (h, argv) == -1)
    nbd_die (path);
  size = nbd_get_size (h);
  if (sectors == 0) {
    sectors = size / SECTOR;
    for (int i = 0; i < 2; i++) {
      disks[i].now = calloc (sectors, sizeof (uint32_t));
      disks[i].image = calloc (sectors, sizeof (uint32_t));
      if (!disks[i].now || !disks[i].image) {
        perror ("workload");
        exit (EXIT_FAILURE);
      }
    }
  }
  if (size != (int64_t) sectors * SECTOR) {
    printf ("%s: %jd bytes, not %jd\n", path, (intmax_t) size,
            (intmax_t) sectors * SECTOR);
    exit (EXIT_FAILURE);
  }
  for (int64_t offset = 0; offset < size; offset += READ_BYTES) {
    size_t n = size - offset < READ_BYTES ? size - offset : READ_BYTES;

    if (nbd_pread (h, buffer, n, offset, 0) == -1)
      nbd_die (path);
    for (size_t i = 0; i < n; i += SECTOR) {
      uint32_t s = (offset + i) / SECTOR;
      disk->image[s] = sector_writer (&buffer[i], s);
    }
  }
  nbd_close (h);
}

static void
fill (uint32_t *now, struct run r, uint32_t writer)
{
  for (uint32_t i = 0; i < r.count; i++)
    now[r.sector + i] = writer;
}

/* Go on to the state after operation k + 1. */
static void
advance (void)
{
  const struct op *op = &list.ptr[k++ - (first - 1)];

  memcpy (before, disks[1].now + op->at.sector,
          op->at.count * sizeof before[0]);
  for (int i = 0; i < 2; i++) {
    if (op->kind == OP_TRIM)
      for (size_t j = 0; j < op->zero[i].len; j++)
        fill (disks[i].now, op->zero[i].ptr[j], 0);
    else
      fill (disks[i].now, op->at, op->kind == OP_WRITE ? k : 0);
  }
}

/* The number of sectors of the disk that are neither as now, nor in 'at'
 * and as 'other' says; with 'say' the first few go there, without it stops
 * at the first.
 */
static uint32_t
differences (const struct disk *disk, struct run at, const uint32_t *other,
             uint32_t other_value, FILE *say)
{
  uint32_t n = 0;

  if (memcmp (disk->now, disk->image, sectors * sizeof disk->now[0]) == 0)
    return 0;
  for (uint32_t s = 0; s < sectors; s++) {
    if (disk->image[s] == disk->now[s])
      continue;
    if (s - at.sector < at.count &&
        disk->image[s] == (other ? other[s - at.sector] : other_value))
      continue;
    if (say && n < 8)
      fprintf (say, "  sector %u of %c: by operation %d, not %u\n", s,
               disk == &disks[0] ? 'A' : 'B', (int) disk->image[s],
               disk->now[s]);
    n++;
    if (!say)
      break;
  }
  return n;
}

static bool
is_instant (FILE *say)
{
  static const struct run nothing;
  size_t n = k - (first - 1);   /* operations of the log that were done */
  struct run last = n ? list.ptr[n - 1].at : nothing;
  struct run next = nothing;
  uint32_t next_value = 0;
  bool found;

  if (n < list.len) {
    next = list.ptr[n].at;
    next_value = list.ptr[n].kind == OP_WRITE ? k + 1 : 0;
  }
  found = differences (&disks[0], nothing, NULL, 0, say) == 0 &&
    differences (&disks[1], last, before, 0, say) == 0;
  return found ||
    (differences (&disks[1], nothing, NULL, 0, NULL) == 0 &&
     differences (&disks[0], next, NULL, next_value, NULL) == 0);
}

static uint32_t
newest_writer (const struct disk *disk)
{
  uint32_t newest = 0;

  for (uint32_t s = 0; s < sectors; s++)
    if (disk->image[s] != SECTOR_BAD && disk->image[s] > newest)
      newest = disk->image[s];
  return newest;
}

static bool
check_pair (const char *path_a, const char *path_b)
{
  static char details[2048];
  uint32_t newest;

  read_image (path_a, &disks[0]);
  read_image (path_b, &disks[1]);
  newest = newest_writer (&disks[0]);
  if (newest > first - 1 + list.len) {
    printf ("%s: has operation %u, which never was\n", path_a, newest);
    return false;
  }
  while (k + 1 < newest)
    advance ();
  for (uint32_t tries = 0; tries < MAX_TRIES; tries++) {
    if (is_instant (NULL)) {
      printf ("%s %s: %u\n", path_a, path_b, k);
      return true;
    }
    if (k == newest) {
      CLEANUP_FILE FILE *say = fmemopen (details, sizeof details, "w");
      if (say)
        is_instant (say);
    }
    if (k == first - 1 + list.len)
      break;
    advance ();
  }
  printf ("%s %s: no instant; at operation %u:\n%s", path_a, path_b, newest,
          details);
  return false;
}

/* The last operation was cut: a trim may have done all of it. */
static void
complete_last (struct op *op)
{
  for (int i = 0; i < 2; i++)
    if (!op->done[i]) {
      op->zero[i].len = 0;
      if (runs_append (&op->zero[i], op->at) == -1)
        exit (EXIT_FAILURE);
    }
}

int
workload_check (int argc, char **argv)
{
  bool from = strcmp (argv[0], "--from") == 0;

  if (from) {
    for (int i = 0; i < 2; i++) {
      read_image (argv[1 + i], &disks[i]);
      memcpy (disks[i].now, disks[i].image, sectors * sizeof (uint32_t));
    }
    argc -= 3;
    argv += 3;
  }
  log_read (argv[0], &list, &first);
  if (list.len == 0)
    first = from ? newest_writer (&disks[0]) + 1 : 1;
  if (from && list.len)
    complete_last (&list.ptr[list.len - 1]);
  k = first - 1;
  if (!from && list.len &&
      (first != 1 || !list.ptr[list.len - 1].done[1])) {
    printf ("%s: the log does not begin with operation 1 or end with a "
            "complete one\n", argv[0]);
    return 1;
  }
  for (int i = 1; i < argc; i += 2)
    if (!check_pair (argv[i], argv[i + 1]))
      return 1;
  return 0;
}
