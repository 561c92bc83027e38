/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection to QEMU's monitor (QMP): one command at a time, every reply
 * under a deadline, events kept in a queue until somebody waits for them.
 *
 * A struct qmp belongs to one thread at a time.
 */
#ifndef NBDSYNC_QMP_H
#define NBDSYNC_QMP_H

#include <stdbool.h>
#include <jansson.h>

#define QMP_TIMEOUT_MS 10000    /* of a reply, unless a caller knows better */
#define QMP_LINE_MAX_BYTES (16 << 20)

struct qmp;

/* Connect to "PATH" or "unix:PATH" or "tcp:HOST:PORT" ("tcp:[::1]:4444"),
 * read the greeting and negotiate capabilities, all within timeout_ms.
 * NULL with a message that names the address: nobody listens, it is no
 * QMP, or, with errno EBUSY, somebody else uses this monitor (no greeting).
 */
struct qmp *qmp_connect (const char *address, int timeout_ms);

/* The same on a connected socket, which becomes the connection's. */
struct qmp *qmp_from_fd (int fd, const char *name, int timeout_ms);

void qmp_close (struct qmp *qmp);

/* Execute a command; 'args' (an object or NULL) is consumed.  Returns 0
 * and, unless ret is NULL, a new reference to the "return" value; -1 with
 * a message "NAME: COMMAND: error of QEMU" and errno EREMOTEIO if QEMU
 * refused it, ETIMEDOUT or EPIPE if there was no reply (the connection is
 * then dead and every later call fails with EPIPE), EBADMSG if the reply
 * made no sense.
 */
int qmp_execute (struct qmp *qmp, const char *command, json_t *args,
                 json_t **ret);

/* The same with a deadline of its own, and without the message if QEMU
 * refuses: the text of the refusal goes to *ret_refusal (owned by qmp,
 * valid until its next command) if that is not NULL.
 */
int qmp_try (struct qmp *qmp, const char *command, json_t *args,
             int timeout_ms, json_t **ret, const char **ret_refusal);

/* Run actions, an array that is consumed, in one transaction; always with
 * completion-mode individual (grouped hangs QEMU 7.2).
 */
int qmp_transaction (struct qmp *qmp, json_t *actions);

/* Wait for the next event for which match returns true, looking at the
 * queued ones first; events that do not match stay queued (the oldest are
 * dropped beyond 1000).  Returns a new reference to the whole event object,
 * or NULL with errno ETIMEDOUT (no message) or EPIPE (with a message).
 */
typedef bool (*qmp_event_match) (const json_t *event, void *opaque);
json_t *qmp_wait_event (struct qmp *qmp, qmp_event_match match,
                        void *opaque, int timeout_ms);

/* Take the oldest queued event without waiting; NULL if there is none.
 * Reads what has arrived on the socket first.
 */
json_t *qmp_next_event (struct qmp *qmp);

/* Is the connection still there?  Reads what has arrived, does not wait. */
bool qmp_alive (struct qmp *qmp);

/* The address as given, for messages. */
const char *qmp_name (const struct qmp *qmp);

/* For poll(2); do not read from it. */
int qmp_fd (const struct qmp *qmp);

/* QEMU's version as major * 1000000 + minor * 1000 + micro. */
int qmp_version (const struct qmp *qmp);

#endif /* NBDSYNC_QMP_H */
