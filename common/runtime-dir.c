/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Runtime directories.  Their owner holds a flock on each until it removes
 * it or dies, so one that can be locked is a dead process's.  It may also
 * be so new that its owner has not locked it yet: whoever makes one locks
 * it and then looks whether it is still there.
 *
 * State: the descriptors of our directories, under a lock.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "log.h"
#include "runtime-dir.h"
#include "vector.h"

#define PREFIX "nbdsync."       /* and six characters of mkdtemp */
#define TRIES 10

struct owned {
  dev_t dev;
  ino_t ino;
  int fd;
};
DEFINE_VECTOR (owned_dirs, struct owned)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static owned_dirs ours;         /* under lock */

/* Unlink what is in the directory; fd is consumed. */
static void
empty (int fd)
{
  DIR *d = fdopendir (fd);
  struct dirent *entry;

  if (!d) {
    close (fd);
    return;
  }
  while ((entry = readdir (d)))
    if (strcmp (entry->d_name, ".") != 0 && strcmp (entry->d_name, "..") != 0)
      unlinkat (fd, entry->d_name, 0);
  closedir (d);
}

/* Remove the directory if nobody holds its lock. */
static void
remove_dead (int base, const char *name)
{
  int fd = openat (base, name,
                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat st;

  if (fd == -1)
    return;
  /* Some are given to QEMU's user. */
  if (fstat (fd, &st) == -1 ||
      (st.st_uid != geteuid () && geteuid () != 0) ||
      flock (fd, LOCK_EX | LOCK_NB) == -1) {
    close (fd);
    return;
  }
  /* Locked until it is gone. */
  CLEANUP_FD int held = dup (fd);
  empty (fd);
  unlinkat (base, name, AT_REMOVEDIR);
}

static void
sweep (const char *base)
{
  DIR *d = opendir (base);
  struct dirent *entry;

  if (!d)
    return;
  while ((entry = readdir (d)))
    if (strncmp (entry->d_name, PREFIX, strlen (PREFIX)) == 0)
      remove_dead (dirfd (d), entry->d_name);
  closedir (d);
}

/* Lock a directory that was just made.  0 if somebody swept it away. */
static int
own (const char *dir)
{
  CLEANUP_FD int fd = open (dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat st, now;

  if (fd == -1 || flock (fd, LOCK_EX | LOCK_NB) == -1)
    return errno == ENOENT || errno == EWOULDBLOCK ? 0 : -1;
  if (fstat (fd, &st) == -1)
    return -1;
  if (stat (dir, &now) == -1 || st.st_dev != now.st_dev ||
      st.st_ino != now.st_ino)
    return 0;
  LOCK_FOR_SCOPE (&lock);
  if (owned_dirs_append (&ours, (struct owned) {
        .dev = st.st_dev, .ino = st.st_ino, .fd = fd }) == -1)
    return -1;
  fd = -1;
  return 1;
}

static char *
create_below (const char *base)
{
  char *dir;

  sweep (base);
  for (int i = 0; i < TRIES; i++) {
    int r;

    if (asprintf (&dir, "%s/" PREFIX "XXXXXX", base) == -1)
      return NULL;
    if (!mkdtemp (dir)) {
      free (dir);
      return NULL;
    }
    r = own (dir);
    if (r == 1)
      return dir;
    rmdir (dir);
    free (dir);
    if (r == -1)
      return NULL;
  }
  return NULL;
}

char *
runtime_dir_create (void)
{
  const char *bases[] = { getenv ("XDG_RUNTIME_DIR"), "/run", "/tmp" };

  for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
    char *dir;

    /* Room for "/nbdsync.XXXXXX/" and a name in 107 bytes. */
    if (!bases[i] || bases[i][0] != '/' || strlen (bases[i]) > 50)
      continue;
    dir = create_below (bases[i]);
    if (dir)
      return dir;
  }
  log_error ("no directory for sockets: neither /run nor /tmp can be "
             "written: %m");
  return NULL;
}

void
runtime_dir_remove (const char *dir)
{
  int fd = open (dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat st;

  if (fd == -1)
    return;
  if (fstat (fd, &st) == -1) {
    close (fd);
    return;
  }
  empty (fd);
  rmdir (dir);
  LOCK_FOR_SCOPE (&lock);
  for (size_t i = 0; i < ours.len; i++)
    if (ours.ptr[i].dev == st.st_dev && ours.ptr[i].ino == st.st_ino) {
      close (ours.ptr[i].fd);
      ours.ptr[i] = ours.ptr[--ours.len];
      break;
    }
}
