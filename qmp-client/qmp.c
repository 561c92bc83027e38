/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection to QEMU's monitor.
 *
 * The socket does not block; every wait is a poll with a deadline.  Bytes
 * are collected in 'in' until they hold a whole message: it ends at the
 * first newline outside of brackets and strings, so that neither the sizes
 * of reads nor a pretty-printing monitor matter.  What does not begin with
 * '{' is no QMP, whatever its length.
 *
 * Whatever breaks the conversation (end of file, a deadline, a message that
 * makes no sense) is reported once, where it is seen, and kills the
 * connection: after a lost reply nobody knows any more which reply answers
 * what.  A dead connection answers EPIPE to everything.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "fault.h"
#include "json.h"
#include "log.h"
#include "qmp.h"
#include "vector.h"

#define READ_BYTES (64 << 10)
#define TRANSACTION_TIMEOUT_MS 60000
#define EVENTS_MAX 1000

struct qmp {
  int fd;
  char *name;
  bool dead;
  int version;
  uint64_t last_id;
  json_t *events;               /* array, oldest first */
  char *refusal;

  char *in;                     /* what has come and is not parsed */
  size_t in_len, in_cap;
  size_t scanned;               /* of in; the rest is the scanner's state */
  unsigned depth;
  bool in_string, escaped;
};

/* The conversation is over.  Always -1, for return. */
static int
kill_connection (struct qmp *qmp, int error)
{
  qmp->dead = true;
  shutdown (qmp->fd, SHUT_RDWR);
  errno = error;
  return -1;
}

/* Find the end of the first message in 'in'; 0 if it is not there yet. */
static size_t
scan (struct qmp *qmp)
{
  while (qmp->scanned < qmp->in_len) {
    char c = qmp->in[qmp->scanned++];

    if (qmp->in_string) {
      if (qmp->escaped)
        qmp->escaped = false;
      else if (c == '\\')
        qmp->escaped = true;
      else if (c == '"')
        qmp->in_string = false;
      if (c != '\n')
        continue;
    }
    if (c == '"')
      qmp->in_string = !qmp->in_string;
    else if (c == '{' || c == '[')
      qmp->depth++;
    else if ((c == '}' || c == ']') && qmp->depth > 0)
      qmp->depth--;
    else if (c == '\n' && (qmp->depth == 0 || qmp->in_string)) {
      qmp->depth = 0;
      qmp->in_string = qmp->escaped = false;
      return qmp->scanned;
    }
  }
  return 0;
}

/* Take one message out of what has been read.  1 and a new reference, 0 if
 * there is none yet, -1 with a message.
 */
static int
take_message (struct qmp *qmp, json_t **ret)
{
  json_error_t error;
  size_t end, skip = 0;
  json_t *json;

  if (qmp->scanned == 0) {      /* between messages */
    while (skip < qmp->in_len && strchr (" \r\n\t", qmp->in[skip]) &&
           qmp->in[skip] != '\0')
      skip++;
    qmp->in_len -= skip;
    if (skip > 0)
      memmove (qmp->in, qmp->in + skip, qmp->in_len);
    if (qmp->in_len > 0 && qmp->in[0] != '{') {
      log_error ("%s: this is no QMP socket", qmp->name);
      return kill_connection (qmp, EBADMSG);
    }
  }
  end = scan (qmp);
  if (end == 0 && qmp->in_len <= QMP_LINE_MAX_BYTES)
    return 0;
  if (end == 0 || end > QMP_LINE_MAX_BYTES) {
    log_error ("%s: a message of more than %d MiB", qmp->name,
               QMP_LINE_MAX_BYTES >> 20);
    return kill_connection (qmp, EBADMSG);
  }
  json = json_loadb (qmp->in, end, JSON_REJECT_DUPLICATES, &error);
  if (!json_is_object (json)) {
    json_decref (json);
    log_error ("%s: malformed message: %s", qmp->name, error.text);
    return kill_connection (qmp, EBADMSG);
  }
  log_trace ("%s: < %.*s", qmp->name, (int) (end < 400 ? end : 400), qmp->in);
  qmp->in_len -= end;
  memmove (qmp->in, qmp->in + end, qmp->in_len);
  qmp->scanned = 0;
  *ret = json;
  return 1;
}

/* Read once.  1 if something came, 0 if the deadline passed, -1 with a
 * message at the end of file.
 */
static int
read_more (struct qmp *qmp, int64_t deadline)
{
  void *p = qmp->in;
  ssize_t r;

  if (vector_reserve (&p, &qmp->in_cap, qmp->in_len + READ_BYTES, 1) == -1) {
    log_error ("%s: %m", qmp->name);
    return kill_connection (qmp, ENOMEM);
  }
  qmp->in = p;
  for (;;) {
    struct pollfd pfd = { .fd = qmp->fd, .events = POLLIN };

    r = recv (qmp->fd, qmp->in + qmp->in_len, READ_BYTES, 0);
    if (r > 0) {
      qmp->in_len += r;
      return 1;
    }
    if (r == 0 || (errno != EAGAIN && errno != EINTR)) {
      if (qmp->version == 0)
        log_error ("%s: this is no QMP socket (closed without a greeting)",
                   qmp->name);
      else if (r == 0 || errno == ECONNRESET)
        log_error ("%s: QEMU has closed the monitor (has it ended?)",
                   qmp->name);
      else
        log_error ("%s: %m", qmp->name);
      return kill_connection (qmp, EPIPE);
    }
    if (errno == EAGAIN) {
      r = poll (&pfd, 1, clock_left_ms (deadline));
      if (r == 0 || (r == -1 && errno != EINTR))
        return 0;
    }
  }
}

/* The next message, of whatever kind: as take_message, 0 at the deadline. */
static int
next_message (struct qmp *qmp, int64_t deadline, json_t **ret)
{
  for (;;) {
    int r = take_message (qmp, ret);

    if (r == 0)
      r = read_more (qmp, deadline);
    else
      return r;
    if (r != 1)
      return r;
  }
}

/* Queue it if it is an event. */
static bool
queue_event (struct qmp *qmp, json_t *message)
{
  if (!json_get_string (message, "event"))
    return false;
  if (json_array_size (qmp->events) >= EVENTS_MAX)
    json_array_remove (qmp->events, 0);
  if (json_array_append (qmp->events, message) == -1)
    log_debug ("%s: an event was dropped: out of memory", qmp->name);
  return true;
}

static int
send_all (struct qmp *qmp, const char *text, size_t len, int64_t deadline)
{
  while (len > 0) {
    ssize_t r = send (qmp->fd, text, len, MSG_NOSIGNAL);

    if (r >= 0) {
      text += r;
      len -= r;
    }
    else if (errno == EAGAIN) {
      struct pollfd pfd = { .fd = qmp->fd, .events = POLLOUT };

      if (poll (&pfd, 1, clock_left_ms (deadline)) == 0) {
        log_error ("%s: QEMU does not read its monitor", qmp->name);
        return kill_connection (qmp, ETIMEDOUT);
      }
    }
    else if (errno != EINTR) {
      log_error ("%s: QEMU has closed the monitor: %m", qmp->name);
      return kill_connection (qmp, EPIPE);
    }
  }
  return 0;
}

/* Wait for the reply with this id.  0 and a new reference to it. */
static int
wait_reply (struct qmp *qmp, const char *command, uint64_t id, int timeout_ms,
            int64_t deadline, json_t **ret)
{
  for (;;) {
    json_t *message;
    uint64_t got;
    int r = next_message (qmp, deadline, &message);

    if (r == -1)
      return -1;
    if (r == 1 && json_object_get (message, "event") &&
        clock_left_ms (deadline) == 0) { /* events alone do not count */
      json_decref (message);
      r = 0;
    }
    if (r == 0) {
      log_error ("%s: %s: no reply within %d s", qmp->name, command,
                 (timeout_ms + 999) / 1000);
      return kill_connection (qmp, ETIMEDOUT);
    }
    if (!queue_event (qmp, message)) {
      if (json_get_u64 (message, "id", &got) == 0 && got == id) {
        *ret = message;
        return 0;
      }
      json_decref (message);
      log_error ("%s: %s: a reply that is not to this command",
                 qmp->name, command);
      return kill_connection (qmp, EBADMSG);
    }
    json_decref (message);
  }
}

int
qmp_try (struct qmp *qmp, const char *command, json_t *args, int timeout_ms,
         json_t **ret, const char **ret_refusal)
{
  int64_t deadline = clock_ms () + timeout_ms;
  uint64_t id = ++qmp->last_id;
  CLEANUP_JSON json_t *request = json_pack ("{ss sI so*}", "execute", command,
                                            "id", (json_int_t) id,
                                            "arguments", args);
  CLEANUP_JSON json_t *reply = NULL;
  CLEANUP_FREE char *text = NULL;
  const char *refusal;
  json_t *value;
  size_t len;

  if (qmp->dead) {
    errno = EPIPE;
    return -1;
  }
  text = request ? json_dumps (request, JSON_COMPACT) : NULL;
  if (!text) {
    log_error ("%s: %s: out of memory, or not UTF-8", qmp->name, command);
    errno = EINVAL;
    return -1;
  }
  log_trace ("%s: > %s", qmp->name, text);
  if (strncmp (command, "query-", 6) != 0)
    FAULT_POINT_OF ("qmp", command);
  len = strlen (text);
  text[len] = '\n';             /* in the place of the NUL */
  if (send_all (qmp, text, len + 1, deadline) == -1 ||
      wait_reply (qmp, command, id, timeout_ms, deadline, &reply) == -1)
    return -1;
  if (strncmp (command, "query-", 6) != 0)
    FAULT_POINT_OF ("qmp-done", command);

  value = json_object_get (reply, "return");
  if (value) {
    if (ret)
      *ret = json_incref (value);
    return 0;
  }
  refusal = json_get_string (json_object_get (reply, "error"), "desc");
  if (!refusal) {
    log_error ("%s: %s: a reply without return or error", qmp->name, command);
    return kill_connection (qmp, EBADMSG);
  }
  free (qmp->refusal);
  qmp->refusal = strdup (refusal);
  if (ret_refusal)
    *ret_refusal = qmp->refusal ? qmp->refusal : "out of memory";
  errno = EREMOTEIO;
  return -1;
}

static int
execute (struct qmp *qmp, const char *command, json_t *args, int timeout_ms,
         json_t **ret)
{
  const char *refusal = NULL;
  int r = qmp_try (qmp, command, args, timeout_ms, ret, &refusal);

  if (refusal) {
    log_error ("%s: %s: %s", qmp->name, command, refusal);
    errno = EREMOTEIO;
  }
  return r;
}

int
qmp_execute (struct qmp *qmp, const char *command, json_t *args, json_t **ret)
{
  return execute (qmp, command, args, QMP_TIMEOUT_MS, ret);
}

int
qmp_transaction (struct qmp *qmp, json_t *actions)
{
  /* It waits for all requests of the guest that are in flight. */
  return execute (qmp, "transaction",
                  json_pack ("{s:o, s:{s:s}}", "actions", actions,
                             "properties", "completion-mode", "individual"),
                  TRANSACTION_TIMEOUT_MS, NULL);
}

/* Take the first queued event that matches; NULL if none does. */
static json_t *
take_event (struct qmp *qmp, qmp_event_match match, void *opaque)
{
  json_t *event;
  size_t i;

  json_array_foreach (qmp->events, i, event)
    if (!match || match (event, opaque)) {
      json_incref (event);
      json_array_remove (qmp->events, i);
      return event;
    }
  return NULL;
}

/* Read into the queue until the deadline, or until an event has come.  1,
 * 0 at the deadline, -1 with a message.
 */
static int
read_events (struct qmp *qmp, int64_t deadline)
{
  CLEANUP_JSON json_t *message = NULL;
  int r;

  if (qmp->dead) {
    errno = EPIPE;
    return -1;
  }
  r = next_message (qmp, deadline, &message);
  if (r == 1 && !queue_event (qmp, message)) {
    log_error ("%s: a reply without a command", qmp->name);
    return kill_connection (qmp, EBADMSG);
  }
  return r;
}

json_t *
qmp_wait_event (struct qmp *qmp, qmp_event_match match, void *opaque,
                int timeout_ms)
{
  int64_t deadline = clock_ms () + timeout_ms;

  for (;;) {
    json_t *event = take_event (qmp, match, opaque);
    int r;

    if (event)
      return event;
    r = read_events (qmp, deadline);
    if (r == 1 && timeout_ms > 0 && clock_left_ms (deadline) == 0)
      r = 0;
    if (r == 0)
      errno = ETIMEDOUT;
    if (r != 1)
      return NULL;
  }
}

json_t *
qmp_next_event (struct qmp *qmp)
{
  while (read_events (qmp, 0) == 1)
    ;
  return take_event (qmp, NULL, NULL);
}

bool
qmp_alive (struct qmp *qmp)
{
  while (read_events (qmp, 0) == 1)
    ;
  return !qmp->dead;
}

int
qmp_fd (const struct qmp *qmp)
{
  return qmp->fd;
}

const char *
qmp_name (const struct qmp *qmp)
{
  return qmp->name;
}

int
qmp_version (const struct qmp *qmp)
{
  return qmp->version;
}

static int
read_greeting (struct qmp *qmp, int timeout_ms, int64_t deadline)
{
  CLEANUP_JSON json_t *greeting = NULL;
  json_int_t major, minor, micro;
  int r = next_message (qmp, deadline, &greeting);

  if (r == 0) {
    log_error ("%s: somebody else uses this monitor (no greeting within "
               "%d s): another nbdsync? Or give QEMU one more -qmp",
               qmp->name, (timeout_ms + 999) / 1000);
    return kill_connection (qmp, EBUSY);
  }
  if (r == -1)
    return -1;
  if (json_unpack (greeting, "{s:{s:{s:{s:I, s:I, s:I}}}}", "QMP", "version",
                   "qemu", "major", &major, "minor", &minor,
                   "micro", &micro) == -1 ||
      major < 1 || major > 1000 || minor < 0 || minor > 999 ||
      micro < 0 || micro > 999) {
    log_error ("%s: this is no QMP socket (another greeting)", qmp->name);
    return kill_connection (qmp, EBADMSG);
  }
  qmp->version = major * 1000000 + minor * 1000 + micro;
  return 0;
}

struct qmp *
qmp_from_fd (int fd, const char *name, int timeout_ms)
{
  int64_t deadline = clock_ms () + timeout_ms;
  struct qmp *qmp = calloc (1, sizeof *qmp);
  const char *refusal = NULL;

  if (qmp) {
    qmp->fd = fd;
    qmp->name = strdup (name);
    qmp->events = json_array ();
  }
  if (!qmp || !qmp->name || !qmp->events ||
      fcntl (fd, F_SETFL, fcntl (fd, F_GETFL) | O_NONBLOCK) == -1 ||
      fcntl (fd, F_SETFD, FD_CLOEXEC) == -1) {
    log_error ("%s: %m", name);
    if (!qmp)
      close (fd);
  }
  else if (read_greeting (qmp, timeout_ms, deadline) == 0) {
    if (qmp_try (qmp, "qmp_capabilities", NULL, clock_left_ms (deadline),
                 NULL, &refusal) == 0)
      return qmp;
    if (refusal)
      log_error ("%s: qmp_capabilities: %s", name, refusal);
  }
  qmp_close (qmp);
  return NULL;
}

void
qmp_close (struct qmp *qmp)
{
  int saved = errno;

  if (!qmp)
    return;
  close (qmp->fd);
  json_decref (qmp->events);
  free (qmp->name);
  free (qmp->refusal);
  free (qmp->in);
  free (qmp);
  errno = saved;
}
