/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The map from a file in the format of nbdkit-extentlist-filter(1): a line
 * is "offset length [type]", in any order, without overlaps.  What is
 * listed is the map, whatever its type: whether it is zero is for the
 * source of the data to say, so that a list that is out of date can cost
 * time but not content.
 *
 * One thread, before nbdkit forks; no locks.
 */
#include <config.h>

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <nbdkit-filter.h>

#include "cleanup.h"
#include "log.h"
#include "map-file.h"

DEFINE_VECTOR (run_list, struct run)

static bool
type_ok (char *type)
{
  char *word, *save;

  if (type[strspn (type, "0123456789")] == '\0')
    return true;
  for (word = strtok_r (type, ",", &save); word;
       word = strtok_r (NULL, ",", &save))
    if (strcmp (word, "hole") != 0 && strcmp (word, "zero") != 0)
      return false;
  return true;
}

static int
parse_line (const char *path, unsigned nr, char *line, run_list *list)
{
  const char *const blank = " \t\r\n";
  char *save;
  const char *offset_text = strtok_r (line, blank, &save);
  const char *length_text = strtok_r (NULL, blank, &save);
  char *type = strtok_r (NULL, blank, &save);
  int64_t offset, length;

  if (!offset_text || !length_text || (type && !type_ok (type)) ||
      strtok_r (NULL, blank, &save)) {
    log_error ("%s:%u: not \"offset length [type]\"", path, nr);
    return -1;
  }
  offset = nbdkit_parse_size (offset_text);
  length = nbdkit_parse_size (length_text);
  if (offset == -1 || length == -1 || offset > INT64_MAX - length) {
    log_error ("%s:%u: offset or length out of range", path, nr);
    return -1;
  }
  if (length > 0 &&
      run_list_append (list, (struct run) { .offset = offset,
                                            .length = length }) == -1) {
    log_error ("%s: out of memory", path);
    return -1;
  }
  return 0;
}

static int
by_offset (const void *a, const void *b)
{
  uint64_t x = ((const struct run *) a)->offset;
  uint64_t y = ((const struct run *) b)->offset;

  return x < y ? -1 : x > y;
}

static int
read_list (const char *path, FILE *fp, run_list *list)
{
  CLEANUP_FREE char *line = NULL;
  size_t size = 0;
  unsigned nr = 0;

  while (getline (&line, &size, fp) != -1)
    if (parse_line (path, ++nr, line, list) == -1)
      return -1;
  if (ferror (fp)) {
    log_error ("%s: %m", path);
    return -1;
  }
  return 0;
}

static int
append_list (const char *path, run_list *list, struct runs *ret)
{
  if (list->len > 0)
    qsort (list->ptr, list->len, sizeof list->ptr[0], by_offset);
  for (size_t i = 0; i < list->len; i++) {
    const struct run *run = &list->ptr[i];

    if (run->offset < ret->end) {
      log_error ("%s: ranges overlap at %" PRIu64, path, run->offset);
      return -1;
    }
    if (run->length >= UINT64_C (1) << 60) {
      log_error ("%s: range at %" PRIu64 " is longer than a disk can be",
                 path, run->offset);
      return -1;
    }
    if (runs_append (ret, run->offset, run->length, 0) == -1) {
      log_error ("%s: out of memory", path);
      return -1;
    }
  }
  return 0;
}

int
map_read_file (const char *path, struct runs *ret)
{
  CLEANUP_FILE FILE *fp = fopen (path, "re");
  run_list list = { 0 };
  int r;

  if (!fp) {
    log_error ("%s: %m", path);
    return -1;
  }
  r = read_list (path, fp, &list);
  if (r == 0)
    r = append_list (path, &list, ret);
  run_list_reset (&list);
  return r;
}
