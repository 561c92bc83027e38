/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of shared code.  State: the sink, set before threads start.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"

static void
sink_stderr (enum log_level level, const char *message)
{
  if (level == LOG_LEVEL_ERROR)
    fprintf (stderr, "nbdsync: %s\n", message);
}

static log_sink sink = sink_stderr;

void
log_set_sink (log_sink new_sink)
{
  sink = new_sink;
}

static void __attribute__ ((format (printf, 2, 0)))
log_message (enum log_level level, const char *fmt, va_list ap)
{
  int saved = errno;
  char *message;

  errno = saved;                /* for %m */
  if (vasprintf (&message, fmt, ap) != -1) {
    sink (level, message);
    free (message);
  }
  else
    sink (level, "out of memory");
  errno = saved;
}

void
log_error (const char *fmt, ...)
{
  va_list ap;
  va_start (ap, fmt);
  log_message (LOG_LEVEL_ERROR, fmt, ap);
  va_end (ap);
}

void
log_debug (const char *fmt, ...)
{
  va_list ap;
  va_start (ap, fmt);
  log_message (LOG_LEVEL_DEBUG, fmt, ap);
  va_end (ap);
}

void
log_trace (const char *fmt, ...)
{
  int saved = errno;
  va_list ap;

  if (!getenv ("NBDSYNC_TRACE"))
    return;
  va_start (ap, fmt);
  flockfile (stderr);
  vfprintf (stderr, fmt, ap);
  fputc ('\n', stderr);
  funlockfile (stderr);
  va_end (ap);
  errno = saved;
}
