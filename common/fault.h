/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Named points at which the crash tests (tests/crash/) stop a process, so
 * as to kill it or another one just there.
 *
 *   NBDSYNC_FAULT=NAME[:N],...   whoever reaches NAME for the N-th time (1)
 *                                stops itself with SIGSTOP
 *   NBDSYNC_FAULT=list           nobody stops
 *   NBDSYNC_FAULT_LOG=FILE       gets a line for each point reached:
 *                                "reached|stopped NAME PID PROGRAM"
 *
 * N counts the lines of FILE, so it is over all processes that share it.
 * Without the variable a point costs the load of an int.
 *
 * Names are literals, each used once; tests/crash/points lists them from
 * the source.  FAULT_POINT_OF is for a point that many kinds of one thing
 * pass: its name is "NAME=OF".
 */
#ifndef NBDSYNC_FAULT_H
#define NBDSYNC_FAULT_H

extern int fault_armed;         /* set before main */

/* errno is kept. */
void fault_reached (const char *name, const char *of);

#define FAULT_POINT(name)                                               \
  do { if (fault_armed) fault_reached (name, 0); } while (0)
#define FAULT_POINT_OF(name, of)                                        \
  do { if (fault_armed) fault_reached (name, of); } while (0)

#endif /* NBDSYNC_FAULT_H */
