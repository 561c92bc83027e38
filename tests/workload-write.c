/* SPDX-License-Identifier: BSD-3-Clause
 *
 * workload write: see workload.c.  One thread, one request in flight; a
 * line of the log is one write(2) before the request that it announces.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

static volatile sig_atomic_t stop;
static int log_fd;
static struct nbd_handle *nbd[2];
static char buffer[OP_MAX_SECTORS * SECTOR];

static void
on_signal (int sig)
{
  stop = 1;
}

static void
log_text (const char *text, size_t len)
{
  if (write (log_fd, text, len) != (ssize_t) len) {
    perror ("workload: log");
    exit (EXIT_FAILURE);
  }
}

/* Of any size from one sector to 1 MiB, small ones more often; one in eight
 * at any sector, the others at 4 KiB; half of them in an eighth of the disk,
 * so that much is overwritten.
 */
static struct op
next_op (uint32_t disk_sectors)
{
  struct op op = { 0 };
  uint32_t unit = random () % 8 ? 8 : 1;
  uint32_t count = UINT32_C (1) << random () % 12;
  uint32_t span = random () % 2 ? disk_sectors : disk_sectors / 8;
  int kind = random () % 100;

  op.kind = kind < 72 ? OP_WRITE : kind < 86 ? OP_TRIM :
    kind < 93 ? OP_ZERO : OP_ZERO_NO_HOLE;
  count += random () % count;
  count = (count + unit - 1) / unit * unit;
  if (count > OP_MAX_SECTORS)
    count = OP_MAX_SECTORS;
  op.at.count = count;
  op.at.sector = random () % (span - count + 1) / unit * unit;
  return op;
}

static int
do_op (struct nbd_handle *h, uint32_t k, const struct op *op)
{
  uint64_t offset = (uint64_t) op->at.sector * SECTOR;
  uint64_t bytes = (uint64_t) op->at.count * SECTOR;

  switch (op->kind) {
  case OP_WRITE:
    for (size_t i = 0; i < bytes; i += 8) {
      uint64_t word = sector_word (k, op->at.sector + i / SECTOR);
      memcpy (&buffer[i], &word, sizeof word);
    }
    return nbd_pwrite (h, buffer, bytes, offset, 0);
  case OP_TRIM:
    return nbd_trim (h, bytes, offset, 0);
  case OP_ZERO:
    return nbd_zero (h, bytes, offset, 0);
  case OP_ZERO_NO_HOLE:
    return nbd_zero (h, bytes, offset, LIBNBD_CMD_FLAG_NO_HOLE);
  }
  abort ();
}

/* Log what a trim has made zero. */
static void
log_trimmed (struct nbd_handle *h, uint32_t k, char disk,
             const struct op *op)
{
  static char text[OP_MAX_SECTORS / 2 * 48];
  size_t len = 0;
  uint32_t n;

  if (nbd_pread (h, buffer, (size_t) op->at.count * SECTOR,
                 (uint64_t) op->at.sector * SECTOR, 0) == -1)
    nbd_die ("read");
  for (uint32_t i = 0; i < op->at.count; i += n + 1) {
    for (n = 0; i + n < op->at.count; n++) {
      uint32_t s = op->at.sector + i + n;
      if (sector_writer (&buffer[(i + n) * SECTOR], s) != 0)
        break;
    }
    if (n)
      len += sprintf (text + len, "%u %c zero %u %u\n", k, disk,
                      op->at.sector + i, n);
  }
  log_text (text, len);
}

static void
one_op (uint32_t k, uint32_t disk_sectors)
{
  struct op op = next_op (disk_sectors);
  char text[80];

  log_text (text, sprintf (text, "%u %s %u %u\n", k, op_names[op.kind],
                           op.at.sector, op.at.count));
  for (int i = 0; i < 2; i++) {
    if (do_op (nbd[i], k, &op) == -1)
      nbd_die (op_names[op.kind]);
    if (op.kind == OP_TRIM)
      log_trimmed (nbd[i], k, "ab"[i], &op);
    log_text (text, sprintf (text, "%u %c done\n", k, "ab"[i]));
  }
}

int
workload_write (int argc, char **argv)
{
  const struct sigaction act = { .sa_handler = on_signal };
  unsigned long rate = strtoul (argv[3], NULL, 10);
  unsigned long count = argc > 5 ? strtoul (argv[5], NULL, 10) : UINT32_MAX;
  unsigned long first = argc > 6 ? strtoul (argv[6], NULL, 10) : 1;
  struct timespec due;

  if (rate == 0 || count == 0 || first == 0) {
    fprintf (stderr, "workload: bad number\n");
    return 2;
  }
  sigaction (SIGTERM, &act, NULL);
  srandom (strtoul (argv[4], NULL, 10));
  log_fd = open (argv[0], O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC,
                 0644);
  if (log_fd == -1) {
    perror (argv[0]);
    return 1;
  }
  for (int i = 0; i < 2; i++) {
    nbd[i] = nbd_create ();
    if (!nbd[i] || nbd_connect_uri (nbd[i], argv[1 + i]) == -1)
      nbd_die (argv[1 + i]);
  }
  int64_t size = nbd_get_size (nbd[0]);
  if (size < 16 * OP_MAX_SECTORS * SECTOR || size != nbd_get_size (nbd[1])) {
    fprintf (stderr, "workload: the disks are too small or not the same\n");
    return 1;
  }

  clock_gettime (CLOCK_MONOTONIC, &due);
  for (uint32_t n = 0; n < count && !stop; n++) {
    one_op (first + n, size / SECTOR);
    due.tv_nsec += 1000000000 / rate;
    due.tv_sec += due.tv_nsec / 1000000000;
    due.tv_nsec %= 1000000000;
    while (!stop && clock_nanosleep (CLOCK_MONOTONIC, TIMER_ABSTIME, &due,
                                     NULL) == EINTR)
      ;
  }
  for (int i = 0; i < 2; i++) {
    if (nbd_flush (nbd[i], 0) == -1 || nbd_shutdown (nbd[i], 0) == -1)
      nbd_die (argv[1 + i]);
    nbd_close (nbd[i]);
  }
  close (log_fd);
  return 0;
}
