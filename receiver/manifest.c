/* SPDX-License-Identifier: BSD-3-Clause
 *
 * manifest.json to and from struct manifest.  Pure functions; decoding
 * trusts nothing: what is not as it was written is refused.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "log.h"
#include "manifest.h"

void
manifest_reset (struct manifest *m)
{
  for (size_t i = 0; i < m->disks.len; i++)
    free (m->disks.ptr[i].source);
  replica_disks_reset (&m->disks);
  memset (m, 0, sizeof *m);
}

const struct replica_disk *
manifest_disk (const struct manifest *m, const char *name)
{
  for (size_t i = 0; i < m->disks.len; i++)
    if (strcmp (m->disks.ptr[i].name, name) == 0)
      return &m->disks.ptr[i];
  return NULL;
}

void
session_format (uint64_t session, char ret[SESSION_CHARS + 1])
{
  snprintf (ret, SESSION_CHARS + 1, "%016" PRIx64, session);
}

static bool
hex_ok (const char *text, size_t len)
{
  return text && strlen (text) == len &&
    strspn (text, "0123456789abcdef") == len;
}

bool
session_parse (const char *text, uint64_t *ret)
{
  if (!hex_ok (text, SESSION_CHARS))
    return false;
  *ret = strtoull (text, NULL, 16);
  return true;
}

static void
sum_format (const unsigned char sum[16], char ret[33])
{
  for (int i = 0; i < 16; i++)
    snprintf (ret + 2 * i, 3, "%02x", sum[i]);
}

static bool
sum_parse (const char *text, unsigned char ret[16])
{
  if (!hex_ok (text, 32))
    return false;
  for (int i = 0; i < 16; i++) {
    char byte[3] = { text[2 * i], text[2 * i + 1], '\0' };
    ret[i] = strtoul (byte, NULL, 16);
  }
  return true;
}

static json_t *
encode_disk (const struct replica_disk *d)
{
  char sum[33];

  sum_format (d->sum, sum);
  return json_pack ("{s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:s*}",
                    "chain", d->chain,
                    "size", (json_int_t) d->size,
                    "base", (json_int_t) d->base,
                    "frames", (json_int_t) d->frames,
                    "sum", sum,
                    "data_bytes", (json_int_t) d->data_bytes,
                    "wire_bytes", (json_int_t) d->wire_bytes,
                    "image_bytes", (json_int_t) d->image_bytes,
                    "image_mtime_ns", (json_int_t) d->image_mtime_ns,
                    "source", d->source);
}

json_t *
manifest_encode (const struct manifest *m)
{
  char session[SESSION_CHARS + 1];
  json_t *disks = json_object (), *json;
  int r = 0;

  for (size_t i = 0; i < m->disks.len; i++)
    r |= json_object_set_new (disks, m->disks.ptr[i].name,
                              encode_disk (&m->disks.ptr[i]));
  session_format (m->session, session);
  json = json_pack ("{s:i, s:I, s:I, s:I, s:s, s:o}",
                    "format", MANIFEST_FORMAT,
                    "generation", (json_int_t) m->generation,
                    "base", (json_int_t) m->base,
                    "time", (json_int_t) m->time,
                    "session", session,
                    "disks", disks);
  if (!json || r != 0) {
    json_decref (json);
    log_error ("manifest: out of memory");
    return NULL;
  }
  return json;
}

static const char *
decode_disk (const char *name, const json_t *json, uint64_t generation,
             struct replica_disk *d)
{
  const char *chain = json_get_string (json, "chain");
  const char *source = json_get_string (json, "source");

  if (!disk_name_ok (name))
    return "a disk has a name that is not allowed";
  if (!json_is_object (json) || !chain || !uuid_ok (chain))
    return "a disk has no chain";
  if (json_get_u64 (json, "size", &d->size) == -1 ||
      d->size == 0 || d->size % 512 != 0)
    return "a disk has no size";
  if (json_get_u64 (json, "base", &d->base) == -1 || d->base >= generation)
    return "the base of a disk is not an older generation";
  if (json_get_u64 (json, "frames", &d->frames) == -1 ||
      !sum_parse (json_get_string (json, "sum"), d->sum) ||
      json_get_u64 (json, "data_bytes", &d->data_bytes) == -1 ||
      json_get_u64 (json, "wire_bytes", &d->wire_bytes) == -1 ||
      json_get_u64 (json, "image_bytes", &d->image_bytes) == -1 ||
      json_get_u64 (json, "image_mtime_ns", &d->image_mtime_ns) == -1)
    return "a disk lacks its sum or a count of bytes";
  strcpy (d->name, name);
  strcpy (d->chain, chain);
  if (source && !(d->source = strdup (source)))
    return "out of memory";
  return NULL;
}

static const char *
decode (const json_t *json, struct manifest *m)
{
  json_t *disks = json_object_get (json, "disks"), *v;
  const char *name, *wrong;
  uint64_t format;

  if (json_get_u64 (json, "format", &format) == -1)
    return "not a manifest";
  if (format != MANIFEST_FORMAT)
    return "written by another version of nbdsync; upgrade this host";
  if (json_get_u64 (json, "generation", &m->generation) == -1 ||
      m->generation == 0 || m->generation > GENERATION_MAX ||
      json_get_u64 (json, "base", &m->base) == -1 ||
      m->base >= m->generation)
    return "no generation, or not newer than its base";
  if (json_get_u64 (json, "time", &m->time) == -1 ||
      !session_parse (json_get_string (json, "session"), &m->session))
    return "no time or no session";
  if (!json_is_object (disks) || json_object_size (disks) == 0 ||
      json_object_size (disks) > DISKS_MAX)
    return "no disks, or too many";
  json_object_foreach (disks, name, v) {
    struct replica_disk d = { 0 };

    wrong = decode_disk (name, v, m->generation, &d);
    if (!wrong && replica_disks_append (&m->disks, d) == -1)
      wrong = "out of memory";
    if (wrong) {
      free (d.source);
      return wrong;
    }
  }
  return NULL;
}

const char *
manifest_decode (const json_t *json, struct manifest *ret)
{
  struct manifest m = { 0 };
  const char *wrong = decode (json, &m);

  if (wrong)
    manifest_reset (&m);
  else
    *ret = m;
  return wrong;
}
