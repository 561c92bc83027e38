/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Readers of image files outside of their QEMU.
 *
 * A reader is a storage daemon of our own, which gets its listening socket
 * as a descriptor and its one node and export on its command line.  It is
 * ready when it greets: then its image is open.  Its complaints go to an
 * unlinked file until then, so that the one that matters can be reported.
 *
 * The image of a running machine is opened with force-share and without
 * locks in all layers (a lock would make the user's block-commit fail), and
 * with O_DIRECT where the file system can, so as to see what QEMU has
 * written past the page cache.
 */
#include <config.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "image.h"
#include "json.h"
#include "log.h"
#include "reader.h"

#define READY_TIMEOUT_MS 30000
#define STOP_TIMEOUT_MS 5000
#define COMPLAINT_BYTES 4096

/* The node for one file, without its backing. */
static json_t *
layer (const char *driver, const char *filename, bool running)
{
  const char *file_driver = image_file_driver (filename);
  json_t *file;

  if (!file_driver)
    return NULL;
  file = json_pack ("{ss, ss, sb}", "driver", file_driver,
                    "filename", filename, "read-only", 1);
  if (running && file) {
    json_object_set_new (file, "force-share", json_true ());
    json_object_set_new (file, "locking", json_string ("off"));
    if (image_can_direct (filename))
      json_object_set_new (file, "cache", json_pack ("{sb}", "direct", 1));
  }
  return json_pack ("{ss, sb, sb, so}", "driver", driver, "read-only", 1,
                    "force-share", running, "file", file);
}

/* The layers from number i on, each with the next as its backing; what the
 * headers of the images say about that is not asked.
 */
static json_t *
layers (const backing_layers *chain, size_t i)
{
  const struct layer *l;
  json_t *node, *below;

  if (!chain || i == chain->len)
    return json_null ();
  l = &chain->ptr[i];
  if (!l->file) {
    log_error ("%s: a backing file that cannot be opened from outside",
               l->node);
    errno = EOPNOTSUPP;
    return NULL;
  }
  node = layer (l->driver, l->file, true);
  if (!node || strcmp (l->driver, "raw") == 0)
    return node;
  below = layers (chain, i + 1);
  if (!below || json_object_set_new (node, "backing", below) == -1) {
    json_decref (node);
    return NULL;
  }
  return node;
}

json_t *
reader_blockdev (const struct reader_spec *spec)
{
  CLEANUP_FREE char *path = realpath (spec->filename, NULL);
  json_t *node, *below;

  if (!path) {
    log_error ("%s: %m", spec->filename);
    return NULL;
  }
  node = layer (spec->driver, path, spec->running);
  if (!node)
    return NULL;
  json_object_set_new (node, "node-name", json_string ("image"));
  if (spec->running && strcmp (spec->driver, "qcow2") == 0) {
    below = layers (spec->backing, 0);
    if (!below || json_object_set_new (node, "backing", below) == -1) {
      json_decref (node);
      return NULL;
    }
  }
  return node;
}

static json_t *
reader_export (const struct reader_spec *spec)
{
  json_t *export =
    json_pack ("{ss, ss, ss, ss, sb, sb}", "type", "nbd", "id", "export",
               "node-name", "image", "name", READER_EXPORT, "writable", 0,
               "allocation-depth", spec->allocation_depth);

  if (spec->bitmap && export)
    json_object_set_new (export, "bitmaps",
                         json_pack ("[s]", spec->bitmap));
  return export;
}

/* Say what the daemon complained about before it ended. */
static void
report_end (struct process *p, const char *filename, int err)
{
  const char *prefix = "qemu-storage-daemon: ";
  char text[COMPLAINT_BYTES + 1], *line, *next;
  int status = process_stop (p, STOP_TIMEOUT_MS);
  ssize_t n = pread (err, text, COMPLAINT_BYTES, 0);

  text[n > 0 ? n : 0] = '\0';
  line = text;
  line[strcspn (line, "\n")] = '\0';
  if (strncmp (line, prefix, strlen (prefix)) == 0)
    line += strlen (prefix);
  /* The reason stands behind the option, which is JSON. */
  while ((next = strstr (line, "}: ")))
    line = next + 3;
  log_error ("%s: cannot be read: %s", filename,
             line[0] != '\0' ? line : process_status_text (status));
}

/* Wait for the greeting.  -1: it ended, or the deadline passed. */
static int
wait_ready (const char *socket, int64_t deadline)
{
  CLEANUP_FD int fd = socket_connect (socket);
  struct pollfd pfd = { .fd = fd, .events = POLLIN };
  char magic[8];
  int r;

  if (fd == -1)
    return -1;
  do
    r = poll (&pfd, 1, clock_left_ms (deadline));
  while (r == -1 && errno == EINTR);
  return r == 1 && recv (fd, magic, sizeof magic, 0) == sizeof magic &&
    memcmp (magic, "NBDMAGIC", sizeof magic) == 0 ? 0 : -1;
}

int
reader_start (struct process *p, const struct reader_spec *spec,
              const char *socket)
{
  CLEANUP_JSON json_t *node = reader_blockdev (spec);
  CLEANUP_JSON json_t *export = reader_export (spec);
  CLEANUP_FREE char *node_text = NULL, *export_text = NULL, *addr = NULL;
  CLEANUP_FD int sock = -1, err = -1;

  if (!node)
    return -1;
  node_text = json_dumps (node, JSON_COMPACT);
  export_text = json_dumps (export, JSON_COMPACT);
  if (!node_text || !export_text) {
    log_error ("%s: out of memory, or not UTF-8", spec->filename);
    return -1;
  }
  err = memfd_create ("nbdsync-reader", MFD_CLOEXEC);
  if (err == -1) {
    log_error ("%s: memfd_create: %m", spec->filename);
    return -1;
  }
  sock = socket_listen (socket);
  if (sock == -1)
    return -1;
  if (asprintf (&addr, "addr.type=fd,addr.str=%d", sock) == -1) {
    addr = NULL;
    return -1;
  }
  const char *argv[] = { "qemu-storage-daemon", "--blockdev", node_text,
                         "--nbd-server", addr, "--export", export_text,
                         NULL };
  const int keep[] = { sock, 0 };
  if (process_start (p, &(struct process_spec) {
        .argv = argv, .err = err, .keep = keep }) == -1) {
    unlink (socket);
    return -1;
  }
  close (TAKE_FD (sock));       /* so that its death closes connections */
  if (wait_ready (socket, clock_ms () + READY_TIMEOUT_MS) == 0)
    return 0;
  report_end (p, spec->filename, err);
  unlink (socket);
  errno = EIO;
  return -1;
}

void
reader_stop (struct process *p, const char *socket)
{
  process_stop (p, STOP_TIMEOUT_MS);
  unlink (socket);
}
