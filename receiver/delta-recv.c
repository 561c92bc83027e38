/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nbdkit-delta-recv-plugin: takes a wire export and applies it to a replica
 * directory or an image.
 *
 *   delta-recv.c    nbdkit's callbacks (this file)
 *   disk.c, flush.c connections, binding, flush
 *   pass.c          passes of sessions
 *   assemble.c      pieces of writes -> frames, in memory or spill.c's file
 *   apply.c         frames -> bodies: checked and unpacked
 *   writer.c        bodies -> NBD requests to the storage daemon, storage.c
 *   session-dir.c   what may be applied and when it is committed: a replica
 *   session-file.c    directory (replica.c), or one image in place
 *   budget.c        all memory of these within buffer=
 *
 * Threads: nbdkit's own, one for each request in work, and one writer for
 * each disk in a session.  The storage daemon is a child of the thread that
 * calls after_fork, the main one, and dies with it.
 */
#include <config.h>

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NBDKIT_API_VERSION 2
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
#include <nbdkit-plugin.h>

#include "budget.h"
#include "cleanup.h"
#include "disk.h"
#include "log.h"
#include "session.h"
#include "spill.h"
#include "storage.h"

#define EXPORT_BYTES (INT64_C (1) << 60)
#define BUFFER_MIN_BYTES (1 << 20)
#define DEPTH_MAX 1024

struct config config = { .buffer = 256 << 20, .depth = 16, .lock_fd = -1 };

static const struct session_ops *ops;
static char *spill_dir;
static int lock_fd = -1;
static bool started;

static void
recv_log (enum log_level level, const char *message)
{
  if (level == LOG_LEVEL_ERROR)
    nbdkit_error ("%s", message);
  else
    nbdkit_debug ("%s", message);
}

static void
recv_load (void)
{
  log_set_sink (recv_log);
}

static void
recv_unload (void)
{
  free (config.dir);
  free (config.target);
  free (spill_dir);
}

static int
recv_config_format (const char *value)
{
  static const char *const formats[] = { "qcow2", "raw" };

  for (size_t i = 0; i < 2; i++)
    if (strcmp (value, formats[i]) == 0) {
      config.format = formats[i];
      return 0;
    }
  nbdkit_error ("format must be qcow2 or raw, not '%s'", value);
  return -1;
}

static int
recv_config (const char *key, const char *value)
{
  if (strcmp (key, "dir") == 0) {
    free (config.dir);
    config.dir = nbdkit_absolute_path (value);
    return config.dir ? 0 : -1;
  }
  if (strcmp (key, "target") == 0) {
    free (config.target);
    config.target = nbdkit_absolute_path (value);
    return config.target ? 0 : -1;
  }
  if (strcmp (key, "format") == 0)
    return recv_config_format (value);
  if (strcmp (key, "buffer") == 0) {
    int64_t n = nbdkit_parse_size (value);

    if (n == -1)
      return -1;
    if (n < BUFFER_MIN_BYTES) {
      nbdkit_error ("buffer must be at least 1M");
      return -1;
    }
    config.buffer = n;
    return 0;
  }
  if (strcmp (key, "depth") == 0) {
    if (nbdkit_parse_unsigned ("depth", value, &config.depth) == -1)
      return -1;
    if (config.depth < 1 || config.depth > DEPTH_MAX) {
      nbdkit_error ("depth must be between 1 and %d", DEPTH_MAX);
      return -1;
    }
    return 0;
  }
  if (strcmp (key, "lock-fd") == 0)
    return nbdkit_parse_int ("lock-fd", value, &config.lock_fd);
  nbdkit_error ("unknown parameter '%s'", key);
  return -1;
}

static int
recv_config_complete (void)
{
  if (!config.dir == !config.target) {
    nbdkit_error ("give either target=FILE or dir=DIR");
    return -1;
  }
  if (config.dir && config.format) {
    nbdkit_error ("format: only with target=; the images of a replica "
                  "directory are qcow2");
    return -1;
  }
  return 0;
}

#define recv_config_help                                                \
  "target=<FILE>            Apply the stream of one disk to this image.\n" \
  "dir=<DIR>                Keep a replica directory; the export name is\n" \
  "                         the name of the disk.\n"                     \
  "format=qcow2|raw         Of target; default: as it is, or qcow2.\n"   \
  "buffer=<SIZE>            Memory to use (default 256M).\n"             \
  "depth=<N>                Writes in flight for each disk (default 16).\n" \
  "lock-fd=<FD>             The lock of DIR is held on this descriptor."

/* A block device's directory is in memory: the file goes elsewhere. */
static char *
choose_spill_dir (void)
{
  struct stat st;
  char *dir, *slash;

  if (config.dir)
    return strdup (config.dir);
  if (stat (config.target, &st) == 0 && S_ISBLK (st.st_mode)) {
    const char *tmp = getenv ("TMPDIR");

    return strdup (tmp && tmp[0] == '/' ? tmp : "/var/tmp");
  }
  dir = strdup (config.target);
  if (!dir)
    return NULL;
  slash = strrchr (dir, '/');
  slash[slash == dir] = '\0';
  return dir;
}

static int
recv_get_ready (void)
{
  ops = config.dir ? &session_dir_ops : &session_file_ops;
  if (ops->prepare (&config, &lock_fd) == -1)
    return -1;
  spill_dir = choose_spill_dir ();
  if (!spill_dir) {
    nbdkit_error ("strdup: %m");
    return -1;
  }
  spill_init (spill_dir);
  budget_init (config.buffer);
  disks_init (ops);
  return 0;
}

static int
recv_after_fork (void)
{
  /* Libraries that were preloaded into nbdkit are none of QEMU's. */
  unsetenv ("LD_PRELOAD");
  started = true;
  return storage_start (lock_fd);
}

static void
recv_cleanup (void)
{
  if (started) {
    disks_cleanup ();
    storage_stop ();
  }
  spill_close ();
  if (ops)
    ops->cleanup ();
}

static void *
recv_open (int readonly)
{
  const char *name = nbdkit_export_name ();

  if (!name)
    return NULL;
  if (config.target) {
    name = strrchr (config.target, '/') + 1;
    return disk_connect (name);
  }
  if (!disk_name_ok (name)) {
    nbdkit_error ("the export name must be the name of a disk: letters, "
                  "digits and ._-:+@#, not '%s'", name);
    nbdkit_set_error (EINVAL);
    return NULL;
  }
  return disk_connect (name);
}

static void
recv_close (void *handle)
{
  disk_disconnect (handle);
}

static int64_t
recv_get_size (void *handle)
{
  return EXPORT_BYTES;
}

static int
recv_yes (void *handle)
{
  return 1;
}

static int
recv_no (void *handle)
{
  return 0;
}

static int
recv_can_fua (void *handle)
{
  return NBDKIT_FUA_NONE;
}

static int
recv_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
            uint32_t flags)
{
  nbdkit_error ("this export takes a stream and cannot be read");
  nbdkit_set_error (EIO);
  return -1;
}

static int
recv_answer (int r)
{
  if (r == -1)
    nbdkit_set_error (errno);
  return r;
}

static int
recv_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset,
             uint32_t flags)
{
  return recv_answer (disk_write (handle, offset, buf, count));
}

static int
recv_zero (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  return recv_answer (disk_write (handle, offset, NULL, count));
}

static int
recv_flush (void *handle, uint32_t flags)
{
  return recv_answer (disk_flush (handle));
}

static struct nbdkit_plugin plugin = {
  .name = "delta-recv",
  .longname = "nbdsync receiver",
  .version = PACKAGE_VERSION,
  .description = "apply a stream of changes to the replica of a disk",
  .load = recv_load,
  .unload = recv_unload,
  .config = recv_config,
  .config_complete = recv_config_complete,
  .config_help = recv_config_help,
  .get_ready = recv_get_ready,
  .after_fork = recv_after_fork,
  .cleanup = recv_cleanup,
  .open = recv_open,
  .close = recv_close,
  .get_size = recv_get_size,
  .can_write = recv_yes,
  .can_flush = recv_yes,
  .can_zero = recv_yes,
  .can_fast_zero = recv_no,
  .can_fua = recv_can_fua,
  .can_multi_conn = recv_yes,
  .can_extents = recv_no,
  .pread = recv_pread,
  .pwrite = recv_pwrite,
  .zero = recv_zero,
  .flush = recv_flush,
};

NBDKIT_REGISTER_PLUGIN (plugin)
