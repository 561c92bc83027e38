/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The storage daemon.  It has its monitor from us as one end of a
 * socketpair, and its NBD server as a listening socket in a directory of
 * mode 0700.  The lock guards all that is static here: one QMP command
 * sequence at a time.  It is taken last of all.
 *
 * Backing files are opened read-only and without QEMU's locks, so that
 * somebody may boot the replica while it is being replaced; that they did
 * not change is checked by the commit.
 *
 * If the daemon dies, its NBD clients (writer.c) see their connection
 * closed, and QMP commands fail; a new one is not started.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cleanup.h"
#include "json.h"
#include "log.h"
#include "process.h"
#include "qmp.h"
#include "runtime-dir.h"
#include "storage.h"

#define STOP_TIMEOUT_MS 10000   /* for a clean end: it syncs its images */
#define DEATH_TIMEOUT_MS 200    /* from a closed socket to a zombie */
#define TAG "qemu-storage-daemon"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct process daemon_process;
static struct qmp *qmp;
static char *runtime_dir, *socket_path;
static char *death;             /* how it ended, if by itself */
static bool death_told;

static int
start_daemon (int monitor, int listening, int lock_fd)
{
  CLEANUP_FREE char *chardev = NULL, *server = NULL;
  int keep[] = { monitor, listening, lock_fd == -1 ? 0 : lock_fd, 0 };

  if (asprintf (&chardev, "socket,id=qmp,fd=%d", monitor) == -1 ||
      asprintf (&server, "addr.type=fd,addr.str=%d", listening) == -1) {
    log_error (TAG ": %m");
    return -1;
  }
  const char *argv[] = {
    "qemu-storage-daemon", "--chardev", chardev, "--monitor", "chardev=qmp",
    "--nbd-server", server, NULL
  };
  return process_start (&daemon_process, &(struct process_spec) {
      .argv = argv, .keep = keep });
}

int
storage_start (int lock_fd)
{
  CLEANUP_FD int ours = -1, theirs = -1, listening = -1;
  int pair[2];

  LOCK_FOR_SCOPE (&lock);
  runtime_dir = runtime_dir_create ();
  if (!runtime_dir)
    return -1;
  if (asprintf (&socket_path, "%s/nbd.sock", runtime_dir) == -1) {
    socket_path = NULL;
    log_error (TAG ": %m");
    return -1;
  }
  listening = socket_listen (socket_path);
  if (listening == -1)
    return -1;
  if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1) {
    log_error (TAG ": socketpair: %m");
    return -1;
  }
  ours = pair[0];
  theirs = pair[1];
  if (start_daemon (theirs, listening, lock_fd) == -1)
    return -1;
  close (TAKE_FD (theirs));
  qmp = qmp_from_fd (TAKE_FD (ours), TAG, QMP_TIMEOUT_MS);
  return qmp ? 0 : -1;
}

void
storage_stop (void)
{
  LOCK_FOR_SCOPE (&lock);
  qmp_close (qmp);
  qmp = NULL;
  process_stop (&daemon_process, STOP_TIMEOUT_MS);
  if (runtime_dir)
    runtime_dir_remove (runtime_dir);
  free (runtime_dir);
  free (socket_path);
  free (death);
  runtime_dir = socket_path = death = NULL;
}

static void
note_death_locked (int timeout_ms)
{
  int status;

  if (death || daemon_process.pid == 0 ||
      !process_wait (&daemon_process, timeout_ms, &status))
    return;
  if (asprintf (&death, TAG ": ended: %s", process_status_text (status)) == -1)
    death = NULL;
}

char *
storage_death (void)
{
  LOCK_FOR_SCOPE (&lock);
  note_death_locked (DEATH_TIMEOUT_MS);
  death_told = true;
  return death ? strdup (death) : NULL;
}

static int
check_alive_locked (bool tell)
{
  note_death_locked (0);
  if (!death)
    return 0;
  if (tell || !death_told)
    log_error ("%s; start nbdkit again", death);
  death_told = true;
  return -1;
}

/* "file" for what is no regular file would be refused. */
static const char *
protocol (const char *path)
{
  struct stat st;

  return stat (path, &st) == 0 && S_ISBLK (st.st_mode) ? "host_device"
                                                       : "file";
}

/* The options of a node with its whole chain: each layer is named, so that
 * nothing is opened because an image's header says so.
 */
static json_t *
node_options (const layers *l, size_t i)
{
  const struct layer *layer = &l->ptr[i];
  json_t *file, *node;

  file = json_pack ("{s:s, s:s, s:s}",
                    "driver", protocol (layer->path),
                    "filename", layer->path,
                    "discard", "unmap");
  if (i > 0)
    json_object_set_new (file, "locking", json_string ("off"));
  node = json_pack ("{s:s, s:o, s:s, s:b}",
                    "driver", layer->format,
                    "file", file,
                    "discard", "unmap",
                    "read-only", i > 0);
  if (i + 1 < l->len)
    json_object_set_new (node, "backing", node_options (l, i + 1));
  else if (strcmp (layer->format, "raw") != 0)
    json_object_set_new (node, "backing", json_null ());
  return node;
}

void
storage_export_name (unsigned id, char ret[STORAGE_EXPORT_CHARS])
{
  snprintf (ret, STORAGE_EXPORT_CHARS, "disk%u", id);
}

static int
cluster_bytes_locked (const char *name, uint64_t *ret)
{
  CLEANUP_JSON json_t *nodes = NULL;
  json_t *node;
  size_t i;

  if (qmp_execute (qmp, "query-named-block-nodes",
                   json_pack ("{s:b}", "flat", 1), &nodes) == -1)
    return -1;
  json_array_foreach (nodes, i, node) {
    const char *s = json_get_string (node, "node-name");

    if (s && strcmp (s, name) == 0) {
      *ret = 0;
      json_get_u64 (json_object_get (node, "image"), "cluster-size", ret);
      return 0;
    }
  }
  log_error (TAG ": node %s is not there", name);
  errno = EBADMSG;
  return -1;
}

int
storage_open (unsigned id, const layers *l, uint64_t *ret_cluster_bytes)
{
  char name[STORAGE_EXPORT_CHARS];
  CLEANUP_JSON json_t *export = NULL;
  json_t *node;

  storage_export_name (id, name);
  LOCK_FOR_SCOPE (&lock);
  if (check_alive_locked (true) == -1)
    return -1;
  node = node_options (l, 0);
  json_object_set_new (node, "node-name", json_string (name));
  if (qmp_execute (qmp, "blockdev-add", node, NULL) == -1)
    return -1;
  export = json_pack ("{s:s, s:s, s:s, s:s, s:b}",
                      "type", "nbd", "id", name, "node-name", name,
                      "name", name, "writable", 1);
  if (cluster_bytes_locked (name, ret_cluster_bytes) == -1 ||
      qmp_execute (qmp, "block-export-add", json_incref (export),
                   NULL) == -1) {
    qmp_try (qmp, "blockdev-del", json_pack ("{s:s}", "node-name", name),
             QMP_TIMEOUT_MS, NULL, NULL);
    return -1;
  }
  return 0;
}

static bool
is_export_deleted (const json_t *event, void *opaque)
{
  const char *type = json_get_string (event, "event");
  const char *id = json_get_string (json_object_get (event, "data"), "id");

  return type && id && strcmp (type, "BLOCK_EXPORT_DELETED") == 0 &&
    strcmp (id, opaque) == 0;
}

int
storage_close (unsigned id)
{
  CLEANUP_JSON json_t *event = NULL;
  char name[STORAGE_EXPORT_CHARS];

  storage_export_name (id, name);
  LOCK_FOR_SCOPE (&lock);
  if (check_alive_locked (false) == -1 ||
      qmp_execute (qmp, "block-export-del",
                   json_pack ("{s:s, s:s}", "id", name, "mode", "hard"),
                   NULL) == -1)
    return -1;
  event = qmp_wait_event (qmp, is_export_deleted, name, QMP_TIMEOUT_MS);
  if (!event) {
    if (errno == ETIMEDOUT)
      log_error (TAG ": it does not end an export");
    return -1;
  }
  return qmp_execute (qmp, "blockdev-del",
                      json_pack ("{s:s}", "node-name", name), NULL);
}

const char *
storage_socket (void)
{
  return socket_path;
}
