/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The process at the other end of a monitor.  What a socket tells of it is
 * who listened; where a manager did that for QEMU it is the manager.
 */
#include <config.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "log.h"
#include "peer.h"

/* 0 if it is not known. */
static pid_t
peer_pid (const struct qmp *qmp)
{
  struct ucred peer;
  socklen_t len = sizeof peer;

  if (getsockopt (qmp_fd (qmp), SOL_SOCKET, SO_PEERCRED, &peer, &len) == -1)
    return 0;
  return peer.pid;
}

int
peer_own (const struct qmp *qmp, const char *path)
{
  pid_t pid = peer_pid (qmp);
  char proc[32];
  struct stat st;

  snprintf (proc, sizeof proc, "/proc/%d", (int) pid);
  if (pid == 0 || stat (proc, &st) == -1 || st.st_uid == geteuid ())
    return 0;
  if (chown (path, st.st_uid, st.st_gid) == -1) {
    log_error ("%s: cannot be given to QEMU's user %u: %m (run as root, or "
               "as that user)", path, (unsigned) st.st_uid);
    return -1;
  }
  return 0;
}

/* The file that it has open whose name ends so; NULL if there is none, or
 * more than one.
 */
static char *
open_file (pid_t pid, const char *name)
{
  CLEANUP_FREE char *found = NULL;
  char dir[32], target[4096];
  size_t n = strlen (name);
  struct dirent *entry;
  bool several = false;
  DIR *d;

  snprintf (dir, sizeof dir, "/proc/%d/fd", (int) pid);
  d = opendir (dir);
  while (d && (entry = readdir (d))) {
    ssize_t len = readlinkat (dirfd (d), entry->d_name, target,
                              sizeof target - 1);
    if (len <= (ssize_t) n)
      continue;
    target[len] = '\0';
    if (target[0] != '/' || target[len - n - 1] != '/' ||
        strcmp (target + len - n, name) != 0)
      continue;
    if (!found)
      found = strdup (target);
    else if (strcmp (found, target) != 0)
      several = true;
  }
  if (d)
    closedir (d);
  return several ? NULL : TAKE_PTR (found);
}

char *
peer_path (const struct qmp *qmp, const char *name)
{
  pid_t pid = peer_pid (qmp);
  CLEANUP_FREE char *link = NULL;
  CLEANUP_FREE char *cwd = NULL;
  CLEANUP_FREE char *path = NULL;

  if (name[0] == '/')
    return strdup (name);
  if (pid == 0)
    return NULL;
  while (strncmp (name, "./", 2) == 0)
    name += 2;
  path = open_file (pid, name);
  if (path)
    return TAKE_PTR (path);
  if (asprintf (&link, "/proc/%d/cwd", (int) pid) == -1) {
    link = NULL;
    return NULL;
  }
  cwd = realpath (link, NULL);
  if (!cwd || asprintf (&path, "%s/%s", cwd, name) == -1) {
    path = NULL;
    return NULL;
  }
  return access (path, F_OK) == 0 ? TAKE_PTR (path) : NULL;
}
