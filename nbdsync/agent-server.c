/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The agent's side: read a request, run its verb, answer.
 *
 * State: what the running verb has reported (first_error), for the answer.
 * One thread, but log_error may be called by threads of libraries; those
 * messages are of the running verb too, hence the lock.
 */
#include <config.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "cleanup.h"
#include "frame.h"
#include "json.h"
#include "log.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *first_error;       /* under lock */
static volatile sig_atomic_t ended;

static void
on_signal (int sig)
{
  ended = 1;
}

static void
send_note (const char *message)
{
  CLEANUP_JSON json_t *note = json_pack ("{s:s}", "note", message);

  if (note)
    lines_write (STDOUT_FILENO, note);
}

/* The first error answers the request; what follows from it is a note. */
static void
sink (enum log_level level, const char *message)
{
  LOCK_FOR_SCOPE (&lock);

  if (level == LOG_LEVEL_ERROR && !first_error)
    first_error = strdup (message);
  else
    send_note (message);
}

bool
agent_is_over (void)
{
  struct pollfd pfd = { .fd = STDIN_FILENO, .events = POLLRDHUP };

  return ended || (poll (&pfd, 1, 0) == 1 &&
                   (pfd.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0);
}

char *
agent_take_error (void)
{
  LOCK_FOR_SCOPE (&lock);

  return TAKE_PTR (first_error);
}

static int
run_verb (const struct agent_server *server, const json_t *request,
          json_t **ret)
{
  const char *name = json_get_string (request, "do");
  const struct agent_verb *verb;

  for (verb = server->verbs; name && verb->name; verb++)
    if (strcmp (verb->name, name) == 0)
      return verb->run (server->opaque, request, ret);
  log_error ("%s: unknown request", name ? name : "(none)");
  errno = EBADMSG;
  return -1;
}

static int
answer (const struct agent_server *server, const json_t *request)
{
  CLEANUP_JSON json_t *ok = NULL;
  CLEANUP_JSON json_t *line = NULL;
  CLEANUP_FREE char *error = NULL;
  int r = run_verb (server, request, &ok);
  bool busy = r == -1 && errno == EBUSY;

  error = agent_take_error ();
  if (r == 0 && error)
    send_note (error);          /* it could be done in spite of that */
  if (r == 0)
    line = json_pack ("{s:O?, s:O}", "id", json_object_get (request, "id"),
                      "ok", ok ? ok : (ok = json_object ()));
  else
    line = json_pack ("{s:O?, s:s, s:b}",
                      "id", json_object_get (request, "id"),
                      "error", error ? error : "failed without a reason",
                      "busy", busy);
  return line ? lines_write (STDOUT_FILENO, line) : -1;
}

void
agent_serve (const struct agent_server *server)
{
  struct lines lines = { .fd = STDIN_FILENO, .wake_fd = -1 };
  struct sigaction act = { .sa_handler = on_signal }; /* no SA_RESTART */
  CLEANUP_JSON json_t *hello =
    json_pack ("{s:s, s:s, s:i, s:i}", "nbdsync", server->role,
               "version", PACKAGE_VERSION, "protocol", AGENT_PROTOCOL,
               "format", WIRE_FORMAT);

  /* The coordinator's end is seen as the end of standard input; the
   * terminal's Ctrl-C is the coordinator's business.
   */
  signal (SIGINT, SIG_IGN);
  signal (SIGPIPE, SIG_IGN);
  sigaction (SIGTERM, &act, NULL);
  sigaction (SIGHUP, &act, NULL);
  log_set_sink (sink);

  if (hello && lines_write (STDOUT_FILENO, hello) == 0)
    while (!ended) {
      CLEANUP_JSON json_t *request = lines_read (&lines, -1);
      if (!request || answer (server, request) == -1)
        break;
    }
  lines_reset (&lines);
  free (agent_take_error ());
}
