/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Opening a source: the monitor of a running machine, or a private storage
 * daemon on the images of a stopped one.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "json.h"
#include "log.h"
#include "source.h"

/* "a,b,,c" -> "a" "b,c": a doubled comma stands for one, as in QEMU. */
static char *
next_word (const char **text)
{
  char *word = malloc (strlen (*text) + 1), *p = word;

  if (!word)
    return NULL;
  while (**text) {
    if (**text == ',') {
      (*text)++;
      if (**text != ',')
        break;
    }
    *p++ = *(*text)++;
  }
  *p = '\0';
  return word;
}

static int
open_stopped (struct source *s, const char *list)
{
  while (*list) {
    char *file = next_word (&list);
    char **files = realloc (s->files, (s->nr_files + 1) * sizeof *files);

    if (files)
      s->files = files;
    if (!file || !files) {
      free (file);
      log_error ("out of memory");
      return -1;
    }
    s->files[s->nr_files++] = file;
  }
  s->stopped = true;
  return source_open_daemon (s);
}

/* While a machine migrates, its bitmaps are on the way as well. */
static int
check_migration (struct source *s)
{
  CLEANUP_JSON json_t *info = NULL;
  const char *status, *refusal;

  if (qmp_try (s->qmp, "query-migrate", NULL, QMP_TIMEOUT_MS, &info,
               &refusal) == -1)
    return refusal ? 0 : -1;    /* a storage daemon does not know it */
  status = json_get_string (info, "status");
  if (!status || strcmp (status, "none") == 0 ||
      strcmp (status, "completed") == 0 || strcmp (status, "failed") == 0 ||
      strcmp (status, "cancelled") == 0)
    return 0;
  log_error ("%s: the machine is migrating (%s): run again when that is "
             "done", s->spec, status);
  errno = EBUSY;
  return -1;
}

int
source_open (struct source *s, const char *spec)
{
  s->spec = strdup (spec);
  if (!s->spec) {
    log_error ("out of memory");
    return -1;
  }
  if (strncmp (spec, "image:", 6) == 0) {
    if (open_stopped (s, spec + 6) == -1)
      return -1;
  }
  else {
    s->qmp = qmp_connect (spec + (strncmp (spec, "qmp:", 4) == 0 ? 4 : 0),
                          QMP_TIMEOUT_MS);
    if (!s->qmp)
      return -1;
  }
  return check_migration (s) == -1 ? -1 : disks_list (s->qmp, &s->all);
}

/* The same disk in a later list: a snapshot changes the node of a device,
 * or makes what was a root the backing of another.
 */
static const struct disk *
find_again (const disks *now, const struct disk *disk)
{
  return disks_find (now, disk->device[0] ? disk->device : disk->node);
}

int
source_check_nodes (struct source *s)
{
  disks now = { 0 };
  int r = disks_list (s->qmp, &now);

  FOR_EACH_DISK (s, d) {
    const struct disk *disk;

    if (r == -1)
      break;
    disk = find_again (&now, d->disk);
    if (!disk || strcmp (disk->node, d->disk->node) != 0) {
      log_error ("%s: a snapshot or a block job gave it another image during "
                 "the sync: run again", d->name);
      r = -1;
    }
    else if (disk->size != d->disk->size) {
      log_error ("%s: it was resized during the sync: run again", d->name);
      r = -1;
    }
  }
  disks_free (&now);
  if (r == -1)
    errno = ESTALE;
  return r;
}

void
source_close (struct source *s)
{
  disks_free (&s->all);
  if (s->stopped)
    source_quit_daemon (s);
  else
    qmp_close (s->qmp);
  s->qmp = NULL;
  for (size_t i = 0; i < s->nr_files; i++)
    free (s->files[i]);
  free (s->files);
  free (s->spec);
}
