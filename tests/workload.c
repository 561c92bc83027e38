/* SPDX-License-Identifier: BSD-3-Clause
 *
 * workload: a guest's work on two disks A and B, and whether a pair of
 * images is these disks at one instant.
 *
 *   workload write LOG URI-A URI-B OPS-A-SECOND SEED [OPS [FIRST]]
 *   workload check LOG A B [A B]...
 *   workload check --from A B LOG [A B]...
 *
 * 'write' does one operation at a time: number k = 1, 2, 3, ... on A, then
 * the same on B, until it gets SIGTERM (or did OPS of them).  Numbers begin
 * with FIRST if the disks have something already.  It logs each
 * before it is issued and when it is done:
 *
 *   K write|trim|zero|zero-no-hole SECTOR COUNT
 *   K a|b zero SECTOR COUNT            after a trim, any number of lines
 *   K a|b done
 *
 * What a trim does is the disk's choice (qcow2 trims whole clusters only,
 * and none while a backup job runs), so what it did is read back and
 * logged: from then on every sector of both disks is known.
 *
 * 'check' takes pairs of images in the order of their time and finds for
 * each the instant k: all operations before k are on both disks, none after
 * k is on either; k may be on its way, that is, any part of it on A and
 * nothing on B, or all on A and any part on B.  Every sector is compared.
 * Prints "A B: K" for each pair; exit 1 at the first that is no instant.
 * --from gives the disks as they were before the log's first operation, and
 * allows the last one to have been cut.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "workload.h"

const char *const op_names[4] = { "write", "trim", "zero", "zero-no-hole" };

uint32_t
sector_writer (const void *data, uint32_t sector)
{
  uint64_t word;

  memcpy (&word, data, sizeof word);
  if (memcmp (data, (const char *) data + sizeof word,
              SECTOR - sizeof word) != 0)
    return SECTOR_BAD;
  if (word == 0)
    return 0;
  word = le64toh (word);
  return (uint32_t) word == sector && word >> 32 ? word >> 32 : SECTOR_BAD;
}

static int
op_kind_of (const char *name)
{
  for (int i = 0; i < 4; i++)
    if (strcmp (name, op_names[i]) == 0)
      return i;
  return -1;
}

static bool
log_line (const char *line, ops *list, uint32_t *first)
{
  struct op op = { 0 };
  unsigned k;
  char disk, name[16];
  struct run r;
  int kind;

  if (sscanf (line, "%u %15s %u %u", &k, name, &r.sector, &r.count) == 4) {
    kind = op_kind_of (name);
    if (list->len == 0)
      *first = k;
    if (kind == -1 || k == 0 || k != *first + list->len)
      return false;
    op.kind = kind;
    op.at = r;
    return ops_append (list, op) == 0;
  }
  if (list->len == 0)
    return false;
  struct op *last = &list->ptr[list->len - 1];
  if (sscanf (line, "%u %c zero %u %u", &k, &disk, &r.sector, &r.count) == 4)
    return k == *first + list->len - 1 && (disk == 'a' || disk == 'b') &&
      runs_append (&last->zero[disk == 'b'], r) == 0;
  if (sscanf (line, "%u %c %15s", &k, &disk, name) == 3 &&
      strcmp (name, "done") == 0 && k == *first + list->len - 1 &&
      (disk == 'a' || disk == 'b')) {
    last->done[disk == 'b'] = true;
    return true;
  }
  return false;
}

void
log_read (const char *path, ops *ret, uint32_t *ret_first)
{
  CLEANUP_FREE char *line = NULL;
  CLEANUP_FILE FILE *fp = fopen (path, "r");
  size_t cap = 0;

  if (!fp) {
    perror (path);
    exit (EXIT_FAILURE);
  }
  while (getline (&line, &cap, fp) != -1) {
    if (!log_line (line, ret, ret_first)) {
      fprintf (stderr, "workload: %s: not a line of a log: %s", path, line);
      exit (EXIT_FAILURE);
    }
  }
}

void
nbd_die (const char *object)
{
  fprintf (stderr, "workload: %s: %s\n", object, nbd_get_error ());
  exit (EXIT_FAILURE);
}

int
main (int argc, char **argv)
{
  if (argc >= 7 && argc <= 9 && strcmp (argv[1], "write") == 0)
    return workload_write (argc - 2, argv + 2);
  bool from = argc >= 8 && strcmp (argv[2], "--from") == 0;
  if (argc >= 5 && argc % 2 == (from ? 0 : 1) &&
      strcmp (argv[1], "check") == 0)
    return workload_check (argc - 2, argv + 2);
  fprintf (stderr,
           "usage: workload write LOG URI-A URI-B OPS-A-SECOND SEED "
           "[OPS [FIRST]]\n"
           "       workload check [--from A B] LOG A B [A B]...\n");
  return 2;
}
