/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The session record to and from JSON, and the names that it may contain.
 * Pure functions; decoding trusts nothing.
 */
#include <config.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define XXH_STATIC_LINKING_ONLY /* XXH3_state_t on the stack */
#include <xxhash.h>

#include "cleanup.h"
#include "frame.h"
#include "json.h"
#include "log.h"
#include "session-record.h"

#define SOURCE_MAX 1024         /* bytes of the text for people */

void
session_record_reset (struct session_record *r)
{
  for (size_t i = 0; i < r->disks.len; i++)
    free (r->disks.ptr[i]);
  strings_reset (&r->disks);
  free (r->source);
  memset (r, 0, sizeof *r);
}

json_t *
session_record_encode (const struct session_record *r)
{
  json_t *disks = json_array ();
  json_t *json;

  for (size_t i = 0; i < r->disks.len; i++)
    json_array_append_new (disks, json_string (r->disks.ptr[i]));
  json = json_pack ("{s:i, s:s, s:I, s:I, s:s, s:o, s:I, s:I, s:I, s:I,"
                    " s:I, s:I, s:b, s:s*, s:s*, s:I}",
                    "format", WIRE_FORMAT,
                    "chain", r->chain,
                    "base", (json_int_t) r->base,
                    "target", (json_int_t) r->target,
                    "disk", r->disk,
                    "disks", disks,
                    "size", (json_int_t) r->size,
                    "frames", (json_int_t) r->frames,
                    "data_bytes", (json_int_t) r->data_bytes,
                    "granularity", (json_int_t) r->granularity,
                    "cluster_size", (json_int_t) r->cluster_size,
                    "pass", (json_int_t) r->pass,
                    "final", r->final,
                    "source", r->source,
                    "former", r->former[0] ? r->former : NULL,
                    "started", (json_int_t) r->started);
  if (!json)
    log_error ("session record: out of memory");
  return json;
}

bool
disk_name_ok (const char *name)
{
  size_t n = strlen (name);

  if (n == 0 || n > DISK_NAME_MAX || name[0] == '.' || name[0] == '-')
    return false;
  for (size_t i = 0; i < n; i++)
    if (!isascii (name[i]) ||
        (!isalnum (name[i]) && !strchr ("._-:+@#", name[i])))
      return false;
  return true;
}

bool
uuid_ok (const char *text)
{
  if (strlen (text) != UUID_CHARS)
    return false;
  for (size_t i = 0; i < UUID_CHARS; i++)
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (text[i] != '-')
        return false;
    }
    else if (!strchr ("0123456789abcdef", text[i]))
      return false;
  return true;
}

/* A member that may be absent (then *ret is 0) but not of another type. */
static bool
optional_u64 (const json_t *json, const char *key, uint64_t *ret)
{
  *ret = 0;
  return !json_object_get (json, key) || json_get_u64 (json, key, ret) == 0;
}

static const char *
decode_disks (const json_t *json, struct session_record *r)
{
  json_t *disks = json_object_get (json, "disks"), *v;
  size_t i;
  bool found = false;

  if (!json_is_array (disks) || json_array_size (disks) > DISKS_MAX)
    return "no list of disks, or too long a one";
  json_array_foreach (disks, i, v) {
    const char *name = json_string_value (v);
    char *copy;

    if (!name || strlen (name) != json_string_length (v) ||
        !disk_name_ok (name))
      return "a disk has a name that is not allowed";
    for (size_t j = 0; j < r->disks.len; j++)
      if (strcmp (r->disks.ptr[j], name) == 0)
        return "a disk is listed twice";
    copy = strdup (name);
    if (!copy || strings_append (&r->disks, copy) == -1) {
      free (copy);
      return "out of memory";
    }
    found |= strcmp (name, r->disk) == 0;
  }
  return found ? NULL : "the disk is not among the disks of its session";
}

static const char *
decode (const json_t *json, struct session_record *r)
{
  const char *chain = json_get_string (json, "chain");
  const char *disk = json_get_string (json, "disk");
  const char *source = json_get_string (json, "source");
  const char *former = json_get_string (json, "former");
  uint64_t format;

  if (!json_is_object (json) || json_get_u64 (json, "format", &format) == -1)
    return "not a session record";
  if (format != WIRE_FORMAT)
    return "of another format version: upgrade the older host's nbdsync";
  if (!chain || !uuid_ok (chain))
    return "no chain";
  if (!disk || !disk_name_ok (disk))
    return "no name of a disk, or one that is not allowed";
  if (json_get_u64 (json, "size", &r->size) == -1 || r->size == 0 ||
      r->size % 512 != 0 || r->size > INT64_MAX - SLOT_BYTES)
    return "no size, or not a multiple of 512";
  if (json_get_u64 (json, "frames", &r->frames) == -1 ||
      r->frames >= INT64_MAX / SLOT_BYTES - 1)
    return "no number of frames, or too large a one";
  if (json_get_u64 (json, "pass", &r->pass) == -1 || r->pass == 0 ||
      json_get_bool (json, "final", &r->final) == -1)
    return "no number of the pass";
  if (!optional_u64 (json, "base", &r->base) ||
      !optional_u64 (json, "target", &r->target) ||
      !optional_u64 (json, "data_bytes", &r->data_bytes) ||
      !optional_u64 (json, "granularity", &r->granularity) ||
      !optional_u64 (json, "cluster_size", &r->cluster_size) ||
      !optional_u64 (json, "started", &r->started))
    return "a member that must be a number is none";
  if (r->data_bytes > r->size)
    return "more data than the disk has";
  if (r->target != 0 && r->target <= r->base)
    return "the target generation is not newer than the base";
  if (r->cluster_size != 0 &&
      (r->cluster_size < 512 || r->cluster_size > 2 << 20 ||
       (r->cluster_size & (r->cluster_size - 1)) != 0))
    return "a cluster size that qcow2 does not have";
  if (source) {
    if (strlen (source) > SOURCE_MAX)
      return "too long a name of the source";
    r->source = strdup (source);
    if (!r->source)
      return "out of memory";
  }
  if (former && !uuid_ok (former))
    return "a former chain that is none";
  strcpy (r->former, former ? former : "");
  strcpy (r->chain, chain);
  strcpy (r->disk, disk);
  return decode_disks (json, r);
}

const char *
session_record_decode (const json_t *json, struct session_record *ret)
{
  struct session_record r = { 0 };
  const char *wrong = decode (json, &r);

  if (wrong)
    session_record_reset (&r);
  else
    *ret = r;
  return wrong;
}

int
random_u64 (uint64_t *ret)
{
  if (getrandom (ret, sizeof *ret, 0) != sizeof *ret) {
    log_error ("getrandom: %m");
    return -1;
  }
  return 0;
}

/* RFC 9562: the version in bits 12-15 of the third group, variant 10. */
static void
uuid_format (uint64_t a, uint64_t b, unsigned version,
             char ret[UUID_CHARS + 1])
{
  a = (a & ~UINT64_C (0xf000)) | version << 12;
  b = (b & ~(UINT64_C (3) << 62)) | (UINT64_C (2) << 62);
  snprintf (ret, UUID_CHARS + 1, "%08x-%04x-%04x-%04x-%012llx",
            (unsigned) (a >> 32), (unsigned) (a >> 16) & 0xffff,
            (unsigned) a & 0xffff, (unsigned) (b >> 48),
            (unsigned long long) (b & 0xffffffffffff));
}

int
uuid_generate (char ret[UUID_CHARS + 1])
{
  uint64_t a, b;

  if (random_u64 (&a) == -1 || random_u64 (&b) == -1)
    return -1;
  uuid_format (a, b, 4, ret);
  return 0;
}

void
uuid_derive (const char *a, const char *b, char ret[UUID_CHARS + 1])
{
  XXH3_state_t state;
  XXH128_hash_t hash;

  /* With their NULs, so that no two pairs run together. */
  XXH3_128bits_reset (&state);
  XXH3_128bits_update (&state, a, strlen (a) + 1);
  XXH3_128bits_update (&state, b, strlen (b) + 1);
  hash = XXH3_128bits_digest (&state);
  uuid_format (hash.high64, hash.low64, 8, ret);
}
