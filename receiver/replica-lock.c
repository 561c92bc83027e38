/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lock of a replica directory.  No state but the descriptor.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "log.h"
#include "replica.h"

#define LOCK_POLL_MS 20

/* A replica is made in an empty directory only (that of a file system of
 * its own has lost+found): what else lies there is somebody else's, another
 * replica's generation for instance.
 */
static int
may_become_replica (const char *dir, const char *lock)
{
  struct dirent *entry;
  bool empty = true;
  DIR *d;

  if (access (lock, F_OK) == 0)
    return 0;
  d = opendir (dir);
  if (!d) {
    log_error ("%s: %m", dir);
    return -1;
  }
  while ((entry = readdir (d)))
    if (strcmp (entry->d_name, ".") != 0 &&
        strcmp (entry->d_name, "..") != 0 &&
        strcmp (entry->d_name, "lock") != 0 &&
        strcmp (entry->d_name, "lost+found") != 0)
      empty = false;
  closedir (d);
  if (empty)
    return 0;
  log_error ("%s: neither a replica nor empty", dir);
  errno = ENOTEMPTY;
  return -1;
}

int
replica_lock (const char *dir, bool create, int timeout_ms, int *ret_fd)
{
  CLEANUP_FREE char *path = NULL;
  CLEANUP_FD int fd = -1;
  struct timespec ts = { .tv_nsec = LOCK_POLL_MS * 1000000 };

  if (asprintf (&path, "%s/lock", dir) == -1) {
    path = NULL;
    log_error ("%s: %m", dir);
    return -1;
  }
  if (create && mkdir (dir, 0700) == -1 && errno != EEXIST) {
    log_error ("%s: %m", dir);
    return -1;
  }
  if (create && may_become_replica (dir, path) == -1)
    return -1;
  fd = open (path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
  if (fd == -1) {
    if (create || errno != ENOENT)
      log_error ("%s: %m", path);
    return -1;
  }
  for (;;) {
    if (flock (fd, LOCK_EX | LOCK_NB) == 0)
      break;
    if (errno != EWOULDBLOCK && errno != EINTR) {
      log_error ("%s: %m", path);
      return -1;
    }
    if (timeout_ms <= 0) {
      errno = EBUSY;
      return -1;
    }
    nanosleep (&ts, NULL);
    timeout_ms -= LOCK_POLL_MS;
  }
  *ret_fd = TAKE_FD (fd);
  return 0;
}

int
replica_lock_check (const char *dir, int fd)
{
  CLEANUP_FREE char *path = NULL;
  struct stat ours, given;

  if (asprintf (&path, "%s/lock", dir) == -1) {
    path = NULL;
    log_error ("%s: %m", dir);
    return -1;
  }
  if (fstat (fd, &given) == -1 || stat (path, &ours) == -1 ||
      given.st_dev != ours.st_dev || given.st_ino != ours.st_ino) {
    log_error ("%s: descriptor %d is not this lock", path, fd);
    return -1;
  }
  if (flock (fd, LOCK_EX | LOCK_NB) == -1) {
    log_error ("%s: descriptor %d does not hold this lock", path, fd);
    return -1;
  }
  if (fcntl (fd, F_SETFD, FD_CLOEXEC) == -1) {
    log_error ("%s: %m", path);
    return -1;
  }
  return 0;
}
