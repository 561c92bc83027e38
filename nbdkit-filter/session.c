/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From the file of delta-session to frame 0.  The members are checked by
 * the decoder that the receiver uses: defaults are put into the object of
 * the file, then it is decoded like a record that has come over the wire.
 * So a record that would be refused there is refused here, before anything
 * is read.
 *
 * Pure functions; no state.
 */
#include <config.h>

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "frame.h"
#include "json.h"
#include "log.h"
#include "session.h"

static const char *const known_keys[] = {
  "chain", "base", "target", "disk", "disks", "pass", "final", "source",
  "started", "cluster_size", "session", "former",
};

#define HOW_TO_INCREMENT                                                \
  "an increment needs delta-session=FILE with \"chain\" and \"base\" of the " \
  "replica, as jq '{chain, base: .generation}' takes them out of its "  \
  "manifest.json or marker"

static bool
key_is_known (const char *key)
{
  for (size_t i = 0; i < sizeof known_keys / sizeof known_keys[0]; i++)
    if (strcmp (key, known_keys[i]) == 0)
      return true;
  return false;
}

static json_t *
read_members (const char *path)
{
  json_t *json, *value;
  const char *key;

  if (!path)
    return json_object ();
  json = json_read_file (AT_FDCWD, path, RECORD_MAX_BYTES);
  if (!json) {
    if (errno == ENOENT)
      log_error ("%s: %m", path);
    return NULL;
  }
  json_object_foreach (json, key, value)
    if (!key_is_known (key)) {
      log_error ("%s: unknown member \"%s\"", path, key);
      json_decref (json);
      return NULL;
    }
  return json;
}

/* "session" is 16 hexadecimal digits; else it is drawn. */
static int
take_session_id (const char *name, json_t *json, uint64_t *ret)
{
  const char *text;

  if (!json_object_get (json, "session"))
    return random_u64 (ret);
  text = json_get_string (json, "session");
  if (!text || strlen (text) != 16 ||
      strspn (text, "0123456789abcdefABCDEF") != 16) {
    log_error ("%s: \"session\" is not 16 hexadecimal digits", name);
    return -1;
  }
  *ret = strtoull (text, NULL, 16);
  json_object_del (json, "session");
  return 0;
}

static void
set_default (json_t *json, const char *key, json_t *value)
{
  if (json_object_get (json, key))
    json_decref (value);
  else
    json_object_set_new (json, key, value);
}

static int
set_defaults (json_t *json)
{
  char chain[UUID_CHARS + 1], host[256] = "";
  json_t *disk;

  if (uuid_generate (chain) == -1)
    return -1;
  gethostname (host, sizeof host - 1);

  set_default (json, "chain", json_string (chain));
  set_default (json, "disk", json_string ("disk"));
  disk = json_object_get (json, "disk");
  set_default (json, "disks", json_pack ("[O]", disk));
  set_default (json, "pass", json_integer (1));
  set_default (json, "final", json_true ());
  set_default (json, "source", json_string (host));
  set_default (json, "started", json_integer (time (NULL)));

  /* What only the plan can tell; any value that the decoder takes. */
  json_object_set_new (json, "format", json_integer (WIRE_FORMAT));
  json_object_set_new (json, "size", json_integer (512));
  json_object_set_new (json, "frames", json_integer (0));
  return 0;
}

int
session_load (const char *path, bool partial, struct session_record *ret,
              uint64_t *ret_session)
{
  CLEANUP_JSON json_t *json = read_members (path);
  const char *name = path ? path : "delta-session";
  const char *wrong;
  bool has_chain;

  if (!json)
    return -1;
  has_chain = json_object_get (json, "chain") != NULL;
  if (take_session_id (name, json, ret_session) == -1 ||
      set_defaults (json) == -1)
    return -1;
  wrong = session_record_decode (json, ret);
  if (wrong) {
    log_error ("%s: %s", name, wrong);
    return -1;
  }
  if (partial && (!has_chain || (ret->base == 0 && ret->pass == 1))) {
    log_error ("%s: the plan is not the whole disk: " HOW_TO_INCREMENT, name);
    session_record_reset (ret);
    return -1;
  }
  return 0;
}

unsigned char *
session_frame (const struct session_record *record, uint64_t session,
               size_t *ret_bytes)
{
  CLEANUP_JSON json_t *json = session_record_encode (record);
  CLEANUP_FREE char *text = json ? json_dumps (json, JSON_COMPACT) : NULL;
  unsigned char *frame = NULL;
  struct envelope env = { .session = session, .kind = FRAME_SESSION };

  if (!json)
    return NULL;
  if (text) {
    env.unpacked_bytes = strlen (text);
    frame = malloc (frame_bound (env.unpacked_bytes));
  }
  if (!frame) {
    log_error ("session record: out of memory");
    return NULL;
  }
  *ret_bytes = frame_pack (&env, (unsigned char *) text, NULL, 0, frame);
  return frame;
}
