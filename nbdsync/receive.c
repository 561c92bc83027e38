/* SPDX-License-Identifier: BSD-3-Clause
 *
 * "nbdsync receive DIR": the agent where the replica is.
 *
 *   status      generation, disks, times of the replica; with "write" it
 *               is locked, made if it is not there, and settled
 *   differences where a disk may differ from an older generation
 *   open        open a session: gives it its number, starts delta-recv
 *   generation  what the replica has now, durably
 *   checked     nothing had changed at the source
 *   close       end delta-recv and what the session staged
 *
 * It holds the lock of DIR from then to its end; delta-recv inherits
 * the locked descriptor, so that nobody else can write while it runs.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "cleanup.h"
#include "commands.h"
#include "differences.h"
#include "fault.h"
#include "json.h"
#include "log.h"
#include "replica.h"
#include "replica-history.h"
#include "replica-json.h"
#include "runtime-dir.h"
#include "server.h"

#define LOCK_WAIT_MS 10000      /* for an agent that is about to end */
#define STOP_MS 10000

struct receive {
  const char *path;             /* as given */
  char *dir;                    /* absolute; owned */
  char *runtime;                /* private directory for the socket; owned */
  int lock_fd;
  struct replica *replica;
  struct server server;
};

/* Lock and open on the first request, when messages have their way out. */
static int
receive_ready (struct receive *r)
{
  int fd;

  if (r->replica)
    return 0;
  if (replica_lock (r->path, true, LOCK_WAIT_MS, &r->lock_fd) == -1) {
    if (errno == EBUSY) {
      log_error ("%s: another sync into this replica is running", r->path);
      errno = EBUSY;
    }
    return -1;
  }
  /* Above the descriptors of socket activation, which delta-recv gets. */
  fd = fcntl (r->lock_fd, F_DUPFD_CLOEXEC, 10);
  close (r->lock_fd);
  r->lock_fd = fd;
  r->dir = realpath (r->path, NULL);
  r->runtime = runtime_dir_create ();
  if (fd == -1 || !r->dir || !r->runtime) {
    log_error ("%s: %m", r->path);
    return -1;
  }
  FAULT_POINT ("receive-locked");
  r->replica = replica_open (r->dir, REPLICA_CREATE);
  return r->replica ? 0 : -1;
}

/* Tell of the generations below a disk's image: their numbers, and what
 * other images of the source they are of.  -1 with a message.
 */
static int
add_history (const struct replica *replica, json_t *disk)
{
  const char *name = json_get_string (disk, "name");
  const char *last = json_get_string (disk, "source");
  json_t *numbers = json_array (), *sources = json_array ();
  pasts below = { 0 };
  int r = replica_history (replica, name, &below);

  for (size_t i = 0; i < below.len; i++) {
    const struct past *past = &below.ptr[i];

    json_array_append_new (numbers, json_integer (past->generation));
    if (!last || strcmp (last, past->source) != 0)
      json_array_append_new (sources, json_string (past->source));
    last = past->source;
  }
  json_object_set_new (disk, "history", numbers);
  json_object_set_new (disk, "sources", sources);
  pasts_free (&below);
  return r;
}

/* The replica as JSON; disks have their history (replica-history.h), or, if
 * their images are not what their manifests say, a member "problem".
 */
static json_t *
describe (const struct replica *replica)
{
  json_t *json = replica_to_json (replica), *d;
  size_t i;

  json_array_foreach (json_object_get (json, "disks"), i, d) {
    const char *name = json_get_string (d, "name");
    strings images = { 0 };

    if (replica_images (replica, name, &images) == -1 ||
        add_history (replica, d) == -1) {
      CLEANUP_FREE char *problem = agent_take_error ();
      json_object_set_new (d, "problem",
                           json_string (problem ? problem : "unreadable"));
    }
    for (size_t j = 0; j < images.len; j++)
      free (images.ptr[j]);
    strings_reset (&images);
  }
  return json;
}

/* Only look: no lock, and nothing is made.  ENOENT is "exists": false. */
static int
look (const struct receive *r, json_t **ret)
{
  struct replica *replica = replica_open (r->path, REPLICA_READ);

  if (!replica && errno != ENOENT)
    return -1;
  *ret = replica ? describe (replica) : json_pack ("{s:i}", "generation", 0);
  if (*ret)
    json_object_set_new (*ret, "exists", json_boolean (replica != NULL));
  replica_close (replica);
  return *ret ? 0 : -1;
}

static int
verb_status (void *opaque, const json_t *request, json_t **ret)
{
  struct receive *r = opaque;
  bool write = false;

  json_get_bool (request, "write", &write);
  if (!write)
    return look (r, ret);
  if (receive_ready (r) == -1)
    return -1;
  *ret = describe (r->replica);
  return *ret ? 0 : -1;
}

static int
verb_differences (void *opaque, const json_t *request, json_t **ret)
{
  struct receive *r = opaque;
  const char *disk = json_get_string (request, "disk");
  struct runs ranges = { 0 };
  json_t *list = NULL;
  uint64_t since;

  if (receive_ready (r) == -1)
    return -1;
  if (!disk || json_get_u64 (request, "since", &since) == -1) {
    log_error ("differences: no disk, or no generation");
    return -1;
  }
  if (differences_find (r->replica, r->runtime, disk, since, &ranges) == 0)
    list = differences_encode (&ranges);
  runs_reset (&ranges);
  *ret = list ? json_pack ("{s:o}", "ranges", list) : NULL;
  return *ret ? 0 : -1;
}

static int
start_receiver (struct receive *r, const json_t *request)
{
  CLEANUP_FREE char *dir = NULL, *lock = NULL, *buffer = NULL, *rate = NULL;
  const char *disk = json_get_string (request, "disk");
  uint64_t bytes;

  if (!disk || !disk_name_ok (disk)) {
    log_error ("open: no name of a disk");
    return -1;
  }
  if (asprintf (&dir, "dir=%s", r->dir) == -1)
    dir = NULL;
  if (asprintf (&lock, "lock-fd=%d", r->lock_fd) == -1)
    lock = NULL;
  if (json_get_u64 (request, "buffer", &bytes) == 0 &&
      asprintf (&buffer, "buffer=%" PRIu64, bytes) == -1)
    buffer = NULL;
  /* Here all disks share it, and what arrives is what crossed the wire:
   * nbdcopy reads more at the source, in zeroes.
   */
  if (json_get_u64 (request, "rate", &bytes) == 0 &&
      asprintf (&rate, "rate=%" PRIu64, bytes) == -1)
    rate = NULL;
  if (!dir || !lock) {
    log_error ("out of memory");
    return -1;
  }
  const char *argv[12] = { "nbdkit", "--foreground", "--threads=1" };
  size_t n = 3;
  if (rate)
    argv[n++] = "--filter=rate";
  argv[n++] = "delta-recv";
  argv[n++] = dir;
  argv[n++] = lock;
  if (buffer)
    argv[n++] = buffer;
  if (rate)
    argv[n++] = rate;
  return server_start (&r->server, r->runtime, "receive", argv,
                       (int[]) { r->lock_fd, 0 }, disk);
}

static int
verb_open (void *opaque, const json_t *request, json_t **ret)
{
  struct receive *r = opaque;
  const char *session = json_get_string (request, "session");
  uint64_t id, target;
  char *end;

  if (receive_ready (r) == -1)
    return -1;
  if (!session || strlen (session) != 16 ||
      (id = strtoull (session, &end, 16), *end)) {
    log_error ("open: no id of a session");
    return -1;
  }
  if (replica_open_session (r->replica, id, &target) == -1)
    return -1;
  if (start_receiver (r, request) == -1) {
    server_stop (&r->server, STOP_MS);
    replica_discard_incoming (r->replica);
    return -1;
  }
  *ret = json_pack ("{s:I, s:s}", "target", (json_int_t) target,
                    "socket", r->server.socket);
  return 0;
}

static int
verb_generation (void *opaque, const json_t *request, json_t **ret)
{
  struct receive *r = opaque;

  if (receive_ready (r) == -1 || replica_reload (r->replica) == -1)
    return -1;
  *ret = replica_to_json (r->replica);
  return *ret ? 0 : -1;
}

static int
verb_checked (void *opaque, const json_t *request, json_t **ret)
{
  struct receive *r = opaque;

  if (receive_ready (r) == -1)
    return -1;
  return replica_checked (r->replica, time (NULL));
}

/* Why the session broke, as delta-recv said. */
static int
verb_reason (void *opaque, const json_t *request, json_t **ret)
{
  struct receive *r = opaque;
  CLEANUP_FREE char *reason = server_reason (&r->server);

  *ret = reason ? json_pack ("{s:s}", "reason", reason) : json_object ();
  return 0;
}

static int
verb_close (void *opaque, const json_t *request, json_t **ret)
{
  struct receive *r = opaque;

  if (receive_ready (r) == -1)
    return -1;
  server_stop (&r->server, STOP_MS);
  FAULT_POINT ("receive-close");
  if (replica_settle (r->replica) == -1 ||
      replica_discard_incoming (r->replica) == -1)
    return -1;
  *ret = replica_to_json (r->replica);
  return *ret ? 0 : -1;
}

int
command_receive (int argc, char *argv[])
{
  static const struct agent_verb verbs[] = {
    { "status", verb_status }, { "differences", verb_differences },
    { "open", verb_open },
    { "generation", verb_generation }, { "checked", verb_checked },
    { "reason", verb_reason }, { "close", verb_close }, { NULL, NULL },
  };
  struct receive r = { .lock_fd = -1 };

  if (one_argument (argc, argv, "DIR", &r.path) == -1)
    return EXIT_USAGE;
  agent_serve (&(struct agent_server) {
      .role = "receive", .verbs = verbs, .opaque = &r });
  FAULT_POINT ("receive-end");
  server_stop (&r.server, STOP_MS);
  replica_close (r.replica);
  if (r.lock_fd >= 0)
    close (r.lock_fd);
  if (r.runtime)
    runtime_dir_remove (r.runtime);
  free (r.runtime);
  free (r.dir);
  return 0;
}
