/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Image files.  No state.
 */
#include <config.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cleanup.h"
#include "image.h"
#include "json.h"
#include "log.h"
#include "process.h"

#define TOOL_TIMEOUT_MS 60000

int
layers_push (layers *l, const char *path, const char *format)
{
  struct layer layer = { .path = strdup (path) };

  if (strlen (format) >= sizeof layer.format) {
    log_error ("%s: no format that we know: %s", path, format);
    free (layer.path);
    return -1;
  }
  strcpy (layer.format, format);
  if (!layer.path || layers_append (l, layer) == -1) {
    free (layer.path);
    log_error ("%s: %m", path);
    return -1;
  }
  return 0;
}

void
layers_clear (layers *l)
{
  for (size_t i = 0; i < l->len; i++)
    free (l->ptr[i].path);
  layers_reset (l);
}

static int
create_qcow2 (const char *path, uint64_t size, uint64_t cluster_size,
              const char *backing)
{
  char size_text[24], cluster_text[48];
  argv_vector argv = { 0 };
  const char *args[] = { "qemu-img", "create", "-q", "-f", "qcow2", "-u" };
  int r = 0;

  snprintf (size_text, sizeof size_text, "%" PRIu64, size);
  for (size_t i = 0; i < sizeof args / sizeof args[0]; i++)
    r |= argv_vector_append (&argv, args[i]);
  if (cluster_size != 0) {
    snprintf (cluster_text, sizeof cluster_text, "cluster_size=%" PRIu64,
              cluster_size);
    r |= argv_vector_append (&argv, "-o");
    r |= argv_vector_append (&argv, cluster_text);
  }
  if (backing) {
    const char *more[] = { "-F", "qcow2", "-b", backing };

    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
      r |= argv_vector_append (&argv, more[i]);
  }
  r |= argv_vector_append (&argv, path);
  r |= argv_vector_append (&argv, size_text);
  r |= argv_vector_append (&argv, NULL);
  if (r != 0)
    log_error ("%s: %m", path);
  else
    r = process_run (argv.ptr, TOOL_TIMEOUT_MS, NULL);
  argv_vector_reset (&argv);
  return r;
}

int
image_create (const char *path, const char *format, uint64_t size,
              uint64_t cluster_size, const char *backing)
{
  /* The mode is ours: qemu-img keeps that of a file that is there. */
  CLEANUP_FD int fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                            0600);
  int r;

  if (fd == -1) {
    log_error ("%s: cannot create: %m", path);
    return -1;
  }
  if (strcmp (format, "qcow2") == 0)
    r = create_qcow2 (path, size, cluster_size, backing);
  else {
    r = ftruncate (fd, size);
    if (r == -1)
      log_error ("%s: cannot make it %" PRIu64 " bytes long: %m", path, size);
  }
  if (r == -1)
    unlink (path);
  return r;
}

int
image_probe (const char *path, const char *format, layers *ret_layers,
             uint64_t *ret_size)
{
  const char *argv[] = {
    "qemu-img", "info", "-U", "--backing-chain", "--output=json",
    format ? "-f" : path, format, path, NULL  /* no format: ends at it */
  };
  CLEANUP_FREE char *text = NULL;
  CLEANUP_JSON json_t *json = NULL;
  json_t *v;
  size_t i;

  if (process_run (argv, TOOL_TIMEOUT_MS, &text) == -1)
    return -1;
  json = json_loads (text, 0, NULL);
  if (!json_is_array (json) || json_array_size (json) == 0)
    goto err;
  json_array_foreach (json, i, v) {
    const char *name = json_get_string (v, "filename");
    const char *fmt = json_get_string (v, "format");

    if (!name || !fmt ||
        (i == 0 && json_get_u64 (v, "virtual-size", ret_size) == -1))
      goto err;
    if (layers_push (ret_layers, i == 0 ? path : name, fmt) == -1)
      return -1;
  }
  return 0;

 err:
  log_error ("%s: qemu-img info answers what nobody understands", path);
  return -1;
}
