/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The coordinator's side of an agent: start it, call it, end it.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "cleanup.h"
#include "clock.h"
#include "frame.h"
#include "json.h"
#include "log.h"

#define HELLO_MS 60000          /* ssh may have to connect first */
#define STOP_MS 15000

/* For messages: "receive", or "receive on HOST". */
static const char *
agent_name (const struct agent *a)
{
  static char name[300];

  if (!a->transport.place->host)
    return a->role;
  snprintf (name, sizeof name, "%s on %s", a->role,
            a->transport.place->host);
  return name;
}

/* It has ended: why, as far as its exit status tells. */
static void
agent_ended (struct agent *a, int status)
{
  const char *name = agent_name (a);
  bool remote = a->transport.place->host && WIFEXITED (status);

  if (remote && WEXITSTATUS (status) == 127)
    log_error ("%s: nbdsync is not installed there, or not in the PATH that "
               "ssh gives to commands", name);
  else if (remote && WEXITSTATUS (status) == 255)
    log_error ("%s: ssh has failed or lost its connection", name);
  else
    log_error ("%s: the agent has ended (%s)", name,
               process_status_text (status));
}

/* The agent is gone or makes no sense: say so once. */
static void
agent_failed (struct agent *a, int error)
{
  const char *name = agent_name (a);
  int status;

  switch (error) {
  case 0:
    if (process_wait (&a->process, 2000, &status))
      agent_ended (a, status);
    else
      log_error ("%s: the agent has closed its connection", name);
    break;
  case ETIMEDOUT:
    log_error ("%s: no answer in time", name);
    break;
  case EBADMSG:
    log_error ("%s: an answer that makes no sense", name);
    break;
  case EAGAIN:
  case EINTR:
    log_error ("interrupted");
    break;
  default:
    log_error ("%s: %s", name, strerror (error));
  }
}

static json_t *
agent_read (struct agent *a, int timeout_ms)
{
  json_t *line;

  a->lines.wake_fd = a->interrupt_fd;
  do
    line = lines_read (&a->lines, timeout_ms);
  while (!line && errno == EINTR && a->interrupt_fd >= 0);
  if (!line) {
    int error = errno;
    agent_failed (a, error);
    errno = error == EAGAIN ? EINTR : error ? error : EPIPE;
  }
  return line;
}

/* Compare the versions that the first line names with ours. */
static int
agent_hello (struct agent *a)
{
  CLEANUP_JSON json_t *hello = agent_read (a, HELLO_MS);
  const char *role, *version, *host = a->transport.place->host;
  uint64_t protocol, format;

  if (!hello)
    return -1;
  role = json_get_string (hello, "nbdsync");
  version = json_get_string (hello, "version");
  if (!role || strcmp (role, a->role) != 0 || !version ||
      json_get_u64 (hello, "protocol", &protocol) == -1 ||
      json_get_u64 (hello, "format", &format) == -1) {
    log_error ("%s: this is not nbdsync's agent", agent_name (a));
    return -1;
  }
  if (protocol != AGENT_PROTOCOL || format != WIRE_FORMAT) {
    bool newer = protocol > AGENT_PROTOCOL || format > WIRE_FORMAT;
    log_error ("%s: nbdsync %s there (protocol %llu, format %llu) does not "
               "match nbdsync %s here (protocol %d, format %d): upgrade "
               "nbdsync on %s", agent_name (a), version,
               (unsigned long long) protocol, (unsigned long long) format,
               PACKAGE_VERSION, AGENT_PROTOCOL, WIRE_FORMAT,
               newer || !host ? "this host" : host);
    return -1;
  }
  return 0;
}

int
agent_start (struct agent *a, const char *const *args, int interrupt_fd)
{
  int in[2], out[2];

  a->in = a->out = -1;
  a->interrupt_fd = interrupt_fd;
  if (pipe2 (in, O_CLOEXEC) == -1) {
    log_error ("pipe2: %m");
    return -1;
  }
  CLEANUP_FD int in_r = in[0];
  a->in = in[1];
  if (pipe2 (out, O_CLOEXEC) == -1) {
    log_error ("pipe2: %m");
    return -1;
  }
  CLEANUP_FD int out_w = out[1];
  a->out = out[0];
  a->lines = (struct lines) { .fd = a->out, .wake_fd = -1 };
  if (transport_start (&a->transport, args, in_r, out_w, &a->process) == -1)
    return -1;
  close (TAKE_FD (in_r));
  close (TAKE_FD (out_w));
  return agent_hello (a);
}

int
agent_call (struct agent *a, const char *verb, json_t *args,
            int timeout_ms, json_t **ret)
{
  CLEANUP_JSON json_t *request = args ? args : json_object ();
  int64_t deadline = clock_ms () + timeout_ms;
  uint64_t id = ++a->last_id;

  a->busy = false;
  json_object_set_new (request, "id", json_integer (id));
  json_object_set_new (request, "do", json_string (verb));
  if (lines_write (a->in, request) == -1) {
    agent_failed (a, errno == EPIPE ? 0 : errno);
    errno = EPIPE;
    return -1;
  }
  for (;;) {
    int64_t left = deadline - clock_ms ();
    CLEANUP_JSON json_t *line = agent_read (a, left > 0 ? left : 0);
    const char *note, *error;
    uint64_t got;

    if (!line)
      return -1;
    if ((note = json_get_string (line, "note"))) {
      log_debug ("%s: %s", agent_name (a), note);
      continue;
    }
    if (json_get_u64 (line, "id", &got) == 0 && got < id)
      continue;                 /* of a call that was interrupted */
    if (json_get_u64 (line, "id", &got) == -1 || got != id) {
      agent_failed (a, EBADMSG);
      errno = EBADMSG;
      return -1;
    }
    if ((error = json_get_string (line, "error"))) {
      json_get_bool (line, "busy", &a->busy);
      log_error ("%s%s%s",
                 a->transport.place->host ? a->transport.place->host : "",
                 a->transport.place->host ? ": " : "", error);
      errno = a->busy ? EBUSY : EIO;
      return -1;
    }
    json_t *ok = json_object_get (line, "ok");
    if (!json_is_object (ok)) {
      agent_failed (a, EBADMSG);
      errno = EBADMSG;
      return -1;
    }
    if (ret)
      *ret = json_incref (ok);
    return 0;
  }
}

void
agent_stop (struct agent *a)
{
  int status;

  if (a->in >= 0)
    close (TAKE_FD (a->in));
  if (!process_wait (&a->process, STOP_MS, &status))
    process_stop (&a->process, 1000);
  if (a->out >= 0)
    close (TAKE_FD (a->out));
  lines_reset (&a->lines);
  transport_reset (&a->transport);
}
