/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fault points.  The state is the file that all processes of a test share;
 * whoever reads and appends to it holds its flock.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cleanup.h"
#include "fault.h"

#define LINE_BYTES 256

int fault_armed;

static void __attribute__ ((constructor))
fault_arm (void)
{
  fault_armed = getenv ("NBDSYNC_FAULT") && getenv ("NBDSYNC_FAULT_LOG");
}

/* How often was the point reached before? */
static unsigned long
count (int fd, const char *name)
{
  CLEANUP_FILE FILE *fp = fdopen (dup (fd), "r");
  char line[LINE_BYTES], found[LINE_BYTES];
  unsigned long n = 0;

  if (!fp)
    return 0;
  rewind (fp);
  while (fgets (line, sizeof line, fp))
    n += sscanf (line, "%*s %255s", found) == 1 && strcmp (found, name) == 0;
  return n;
}

/* Is it to stop when it is reached for the n-th time? */
static bool
is_wanted (const char *name, unsigned long n)
{
  const char *p = getenv ("NBDSYNC_FAULT");
  size_t len = strlen (name);

  for (; *p; p += strspn (p, ",")) {
    size_t word = strcspn (p, ":,");
    bool same = word == len && strncmp (p, name, len) == 0;
    unsigned long nth = 1;

    p += word;
    if (*p == ':')
      nth = strtoul (p + 1, NULL, 10);
    p += strcspn (p, ",");
    if (same && nth == n)
      return true;
  }
  return false;
}

static void
reached (const char *name)
{
  CLEANUP_FD int fd = open (getenv ("NBDSYNC_FAULT_LOG"),
                            O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  char line[LINE_BYTES];
  bool stop;
  int n;

  if (fd == -1 || flock (fd, LOCK_EX) == -1)
    return;
  stop = is_wanted (name, count (fd, name) + 1);
  n = snprintf (line, sizeof line, "%s %s %d %s\n",
                stop ? "stopped" : "reached", name, (int) getpid (),
                program_invocation_short_name);
  if (write (fd, line, n) != n)
    return;
  close (TAKE_FD (fd));
  if (stop)
    raise (SIGSTOP);
}

void
fault_reached (const char *name, const char *of)
{
  char both[LINE_BYTES / 2];
  int saved = errno;

  snprintf (both, sizeof both, "%s%s%s", name, of ? "=" : "", of ? of : "");
  reached (both);
  errno = saved;
}
