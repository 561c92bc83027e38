/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of shared code.  An error is reported once, where it is found,
 * as "OBJECT: REASON"; callers above pass the code on silently.  Where it
 * goes is the program's choice: nbdkit_error in a filter or plugin,
 * standard error in the command, the coordinator in an agent.
 */
#ifndef NBDSYNC_LOG_H
#define NBDSYNC_LOG_H

#include <stdarg.h>

/* Report an error.  No newline at the end; %m works.  Keeps errno. */
void log_error (const char *fmt, ...) __attribute__ ((format (printf, 1, 2)));

/* A detail for -v.  Keeps errno. */
void log_debug (const char *fmt, ...) __attribute__ ((format (printf, 1, 2)));

/* What was said to QEMU and what it answered: on standard error, only if
 * NBDSYNC_TRACE is in the environment.
 */
void log_trace (const char *fmt, ...) __attribute__ ((format (printf, 1, 2)));

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_DEBUG };

/* Where messages go; the default writes errors to standard error and drops
 * details.  Set it before threads start.  The message is valid only during
 * the call; the sink may be called from any thread.
 */
typedef void (*log_sink) (enum log_level level, const char *message);
void log_set_sink (log_sink sink);

#endif /* NBDSYNC_LOG_H */
