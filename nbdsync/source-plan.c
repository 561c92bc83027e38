/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which disks are replicated, under which names, and how each of them will
 * go: full, incremental or unchanged, by spool or by precopy.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "evidence.h"
#include "json.h"
#include "log.h"
#include "source.h"

#define DEFAULT_LIMIT (UINT64_C (4) << 30) /* and a quarter of what is free */

/* Did the user name disks, and this one among them?  'select' is an array
 * of "NODE" or "NODE=NAME".  *ret_name is the name that he gave, or NULL.
 */
static bool
selected (const struct source *s, const json_t *select,
          const struct disk *disk, char **ret_name)
{
  json_t *v;
  size_t i;

  *ret_name = NULL;
  if (json_array_size (select) == 0)
    return true;
  json_array_foreach (select, i, v) {
    const char *text = json_string_value (v);
    CLEANUP_FREE char *node =
      text ? strndup (text, strcspn (text, "=")) : NULL;

    if (!node || disks_find (&s->all, node) != disk)
      continue;
    if (strchr (text, '='))
      *ret_name = strdup (strchr (text, '=') + 1);
    return true;
  }
  return false;
}

/* Every word of 'select' must have found its disk. */
static int
check_selection (const struct source *s, const json_t *select)
{
  json_t *v;
  size_t i;

  json_array_foreach (select, i, v) {
    const char *text = json_string_value (v);
    CLEANUP_FREE char *name =
      text ? strndup (text, strcspn (text, "=")) : NULL;

    if (!name || !disks_find (&s->all, name)) {
      log_error ("%s: no such disk (\"nbdsync disks %s\" lists them)",
                 name ? name : "?", s->spec);
      return -1;
    }
  }
  return 0;
}

/* The bitmaps of a disk's images from the active one down; NULL at the end. */
static const bitmaps *
bitmaps_of_image (const struct disk *disk, size_t i)
{
  if (i == 0)
    return &disk->bitmaps;
  return i <= disk->backing.len ? &disk->backing.ptr[i - 1].bitmaps : NULL;
}

/* The replica's disk with the chain that one of these bitmaps names. */
static const json_t *
replica_disk_by_bitmap (const json_t *replica_disks, const bitmaps *all)
{
  for (size_t i = 0; i < all->len; i++) {
    char chain8[CHAIN8_CHARS + 1];
    uint64_t generation, pass;
    json_t *v;
    size_t j;

    if (!bitmap_parse_name (all->ptr[i].name, chain8, &generation, &pass))
      continue;
    json_array_foreach (replica_disks, j, v) {
      const char *chain = json_get_string (v, "chain");
      if (chain && strncmp (chain, chain8, CHAIN8_CHARS) == 0)
        return v;
    }
  }
  return NULL;
}

static const json_t *
replica_disk_by_name (const json_t *replica_disks, const char *name)
{
  json_t *v;
  size_t i;

  json_array_foreach (replica_disks, i, v) {
    const char *got = json_get_string (v, "name");
    if (got && strcmp (got, name) == 0)
      return v;
  }
  return NULL;
}

/* The stopped image's name: its file without directory and extension. */
static int
default_name (const struct source *s, const struct disk *disk,
              char ret[DISK_NAME_MAX + 1])
{
  static const char *const extensions[] = { ".qcow2", ".raw", ".img" };
  const char *name = disk_default_name (disk);
  size_t n;

  if (s->stopped && disk->file) {
    const char *slash = strrchr (disk->file, '/');
    name = slash ? slash + 1 : disk->file;
  }
  n = strlen (name);
  if (s->stopped)
    for (size_t i = 0; i < 3; i++) {
      size_t e = strlen (extensions[i]);
      if (n > e && strcmp (name + n - e, extensions[i]) == 0) {
        n -= e;
        break;
      }
    }
  CLEANUP_FREE char *copy = strndup (name, n);
  if (!copy || !disk_name_ok (copy)) {
    log_error ("%s: not usable as the name of a disk in a replica: name it "
               "by disk=%s=NAME", copy ? copy : name, disk->node);
    return -1;
  }
  strcpy (ret, copy);
  return 0;
}

/* Is the source of a generation, "MACHINE: FILE" (source-pass.c), this file? */
static bool
is_of_file (const char *source, const struct disk *disk)
{
  const char *file = source ? strstr (source, ": ") : NULL;

  return file && disk->file && strcmp (file + 2, disk->file) == 0;
}

/* Does the replica's disk come, or did it come in an older generation, from
 * the file that this one is in?  What has a backing file may be a snapshot
 * over it.
 */
static bool
same_file (const json_t *known, const struct disk *disk)
{
  const json_t *older;
  size_t i;

  if (disk->backing.len > 0 ||
      is_of_file (json_get_string (known, "source"), disk))
    return true;
  json_array_foreach (json_object_get (known, "sources"), i, older)
    if (is_of_file (json_string_value (older), disk))
      return true;
  return false;
}

/* Who this disk is in the replica: by a bitmap of its chain, or by name.
 * *ret_sure is set if it is certainly a disk of the replica's machine.
 */
static int
identify (const struct source *s, const json_t *replica, const char *given,
          struct source_disk *d, const json_t **ret_known, bool *ret_sure)
{
  const json_t *replica_disks = json_object_get (replica, "disks");
  const char *id = json_get_string (replica, "id");
  const json_t *known = NULL;
  const bitmaps *all;

  for (size_t i = 0; !known && (all = bitmaps_of_image (d->disk, i)); i++)
    known = replica_disk_by_bitmap (replica_disks, all);
  if (known)
    strcpy (d->name, json_get_string (known, "name"));
  else if (given) {
    if (!disk_name_ok (given)) {
      log_error ("%s: not usable as the name of a disk", given);
      return -1;
    }
    strcpy (d->name, given);
  }
  else if (default_name (s, d->disk, d->name) == -1)
    return -1;
  if (known)
    *ret_sure = true;
  else {
    known = replica_disk_by_name (replica_disks, d->name);
    if (known && same_file (known, d->disk))
      *ret_sure = true;
  }
  if (known)
    strcpy (d->chain, json_get_string (known, "chain"));
  else
    /* The same again if this session dies: the next one finds its rests. */
    uuid_derive (id ? id : "", d->name, d->chain);
  *ret_known = known;
  return 0;
}

/* Has the chain a bitmap with a number that the replica never gave?  Then
 * another copy of the replica did, and goes on with the chain; what its
 * bitmaps are called is no proof for this one any more.
 */
static bool
is_forked (const json_t *replica, const struct source_disk *d)
{
  uint64_t last = 0, generation, pass;
  char chain8[CHAIN8_CHARS + 1];
  const bitmaps *all;

  json_get_u64 (replica, "last", &last);
  for (size_t i = 0; (all = bitmaps_of_image (d->disk, i)); i++)
    for (size_t j = 0; j < all->len; j++)
      if (bitmap_parse_name (all->ptr[j].name, chain8, &generation, &pass) &&
          strncmp (chain8, d->chain, CHAIN8_CHARS) == 0 && generation > last)
        return true;
  return false;
}

DEFINE_VECTOR (numbers, uint64_t)

/* The best bitmap for what the replica has of the disk. */
static int
find_evidence (const struct source_disk *d, const json_t *known,
               uint64_t generation, struct evidence *ret)
{
  json_t *history = json_object_get (known, "history"), *v;
  numbers older = { 0 };
  size_t i;
  int r = 0;

  json_array_foreach (history, i, v)
    if (r == 0 && json_is_integer (v))
      r = numbers_append (&older, json_integer_value (v));
  if (r == 0)
    *ret = evidence_find (d->disk, d->chain, generation, older.ptr,
                          older.len);
  else
    log_error ("%s: out of memory", d->name);
  numbers_reset (&older);
  return r;
}

bool
source_is_composed (const struct source_disk *d)
{
  return d->base_above > 0 || d->since > 0;
}

/* A disk that became smaller is more often a mistake (another image in its
 * place) than meant.
 */
static int
check_shrink (const json_t *request, const struct situation *situation,
              const struct source_disk *d)
{
  bool allowed = false;

  json_get_bool (request, "allow_shrink", &allowed);
  if (allowed || situation->size >= situation->replica_size)
    return 0;
  log_error ("%s: it has %" PRIu64 " bytes, and in the replica %" PRIu64
             ": was it shrunk on purpose?  Then give --allow-shrink", d->name,
             situation->size, situation->replica_size);
  return -1;
}

/* What a sync by this bitmap will have to send, and how. */
static int
plan_incremental (struct source *s, const struct evidence *e,
                  struct source_disk *d)
{
  strcpy (d->base_bitmap, d->good_bitmap);
  d->base_node = e->node;
  d->base_above = e->above;
  d->since = e->generation < d->base ? e->generation : 0;
  d->dirty_bytes = e->bitmap->count;
  if (source_is_composed (d)) {
    /* At most; what it is will be known when the guest's writes are noted. */
    d->dirty_bytes += d->disk->allocated;
    if (d->dirty_bytes > d->disk->size)
      d->dirty_bytes = d->disk->size;
    d->spool_bytes = d->dirty_bytes;
    d->precopy = true;
    return 0;
  }
  if (d->decision.kind == KIND_INCREMENTAL && !s->stopped)
    return bitmap_spool_bytes (s->qmp, d->disk, d->base_bitmap, d->tag,
                               &d->spool_bytes);
  return 0;
}

static int
plan_disk (struct source *s, const json_t *request, uint64_t generation,
           const json_t *known, struct source_disk *d)
{
  const json_t *replica = json_object_get (request, "replica");
  const char *id = json_get_string (replica, "id");
  uint64_t copied = 0;
  struct situation situation = {
    .generation = generation, .known = known != NULL,
    .size = d->disk->size, .can_persist = disk_can_persist (d->disk),
    .readable = s->stopped || !d->disk->spool_only,
  };
  struct evidence e;

  json_get_bool (request, "full", &situation.force_full);
  if (json_get_u64 (request, "granularity", &d->granularity) == -1)
    d->granularity = bitmap_default_granularity (d->disk->size);
  if (known)
    json_get_u64 (known, "size", &situation.replica_size);
  if (check_shrink (request, &situation, d) == -1 ||
      find_evidence (d, known, generation, &e) == -1)
    return -1;
  situation.bitmap = e.state;
  situation.below = e.above > 0;
  situation.older = e.generation < generation;
  situation.dirty_bytes = e.bitmap ? e.bitmap->count : 0;
  if (e.state == BITMAP_GOOD)
    strcpy (d->good_bitmap, e.bitmap->name);
  situation.forked = is_forked (replica, d);
  json_get_u64 (replica, "copied", &copied);
  situation.copied = generation > 0 && generation <= copied;
  if (situation.forked || situation.copied) {
    /* A chain that no other copy has; a copy's new identity gives it. */
    if (known)
      strcpy (d->former, d->chain);
    if (situation.copied)
      uuid_derive (id ? id : "", d->name, d->chain);
    else if (uuid_generate (d->chain) == -1)
      return -1;
    d->good_bitmap[0] = '\0';
  }
  chain_tag (d->chain, d->tag);

  d->decision = decide (&situation);
  if (d->decision.kind != KIND_FULL) {
    d->base = generation;
    return plan_incremental (s, &e, d);
  }
  d->base = 0;
  d->dirty_bytes = d->spool_bytes = d->disk->allocated;
  /* A spool would walk through the backing files inside QEMU, and nobody
   * knows how much they hold: read them from outside, if that can be.
   */
  if (d->disk->backing.len > 0) {
    d->spool_bytes = d->disk->size;
    d->precopy = !d->disk->spool_only && !s->stopped;
  }
  return 0;
}

/* A limit that the user did not give: a quarter of what is free. */
static int
default_limit (const struct source *s, const struct disk *disk,
               int64_t *limit)
{
  CLEANUP_FREE char *parent = NULL;
  uint64_t bytes;

  if (*limit >= 0)
    return 0;
  parent = scratch_parent (s, disk);
  if (!parent || scratch_free_bytes (parent, &bytes) == -1)
    return -1;
  *limit = bytes / 4 < DEFAULT_LIMIT ? bytes / 4 : DEFAULT_LIMIT;
  return 0;
}

/* Spool what fits the limit; the largest of what does not is precopied. */
static int
choose_ways (struct source *s)
{
  uint64_t sum = 0;

  if (s->stopped) {
    for (size_t i = 0; i < s->disks.len; i++)
      s->disks.ptr[i].precopy = true;
    s->way = "the image files are read: no machine runs";
    return 0;
  }
  if (default_limit (s, s->disks.ptr[0].disk, &s->scratch_limit) == -1 ||
      default_limit (s, s->disks.ptr[0].disk, &s->final_limit) == -1)
    return -1;
  for (size_t i = 0; i < s->disks.len; i++) {
    s->left_bytes += s->disks.ptr[i].spool_bytes;
    if (!s->disks.ptr[i].precopy)
      sum += s->disks.ptr[i].spool_bytes;
  }
  s->way = "spool: all that is to be sent fits --scratch-limit";
  FOR_EACH_DISK (s, d)
    if (source_is_composed (d))
      s->way = "precopy: what changed is told by more than one image";
  while (sum > (uint64_t) s->scratch_limit) {
    struct source_disk *largest = NULL;

    for (size_t i = 0; i < s->disks.len; i++) {
      struct source_disk *d = &s->disks.ptr[i];
      if (!d->precopy && (!largest || d->spool_bytes > largest->spool_bytes))
        largest = d;
    }
    if (largest->disk->spool_only) {
      log_error ("%s: too large for a spool (%" PRIu64 " bytes; "
                 "--scratch-limit is %" PRIi64 "), and a precopy cannot read "
                 "it: %s; give more room by --scratch and --scratch-limit",
                 largest->name, largest->spool_bytes, s->scratch_limit,
                 largest->disk->spool_only);
      return -1;
    }
    largest->precopy = true;
    sum -= largest->spool_bytes;
    s->way = "precopy: more is to be sent than --scratch-limit allows in "
      "a spool";
  }
  return 0;
}

/* A disk that is not replicated, and why. */
static void
skip (struct source *s, const struct disk *disk, const char *reason)
{
  log_debug ("%s: left out: %s", disk_default_name (disk), reason);
  json_array_append_new (s->skipped,
                         json_pack ("{s:s, s:s, s:s}",
                                    "name", disk_default_name (disk),
                                    "node", disk->node, "reason", reason));
}

static int
check_names (const struct source *s)
{
  for (size_t i = 0; i < s->disks.len; i++)
    for (size_t j = 0; j < i; j++)
      if (strcmp (s->disks.ptr[i].name, s->disks.ptr[j].name) == 0) {
        log_error ("%s: two disks have this name in the replica: rename one "
                   "by disk=%s=NAME", s->disks.ptr[i].name,
                   s->disks.ptr[i].disk->node);
        return -1;
      }
  return 0;
}

int
source_plan (struct source *s, const json_t *request)
{
  const json_t *select = json_object_get (request, "select");
  const json_t *replica = json_object_get (request, "replica");
  uint64_t generation = 0;
  bool sure = false, full = false;

  s->skipped = json_array ();
  json_get_u64 (replica, "generation", &generation);
  if (check_selection (s, select) == -1)
    return -1;
  for (size_t i = 0; i < s->all.len; i++) {
    struct source_disk d = { .disk = &s->all.ptr[i], .lock_fd = -1 };
    CLEANUP_FREE char *given = NULL;
    const json_t *known;

    if (!selected (s, select, d.disk, &given)) {
      skip (s, d.disk, "not among the disks that were named");
      continue;
    }
    if (d.disk->unsuitable) {
      if (json_array_size (select) > 0) {
        log_error ("%s: %s", disk_default_name (d.disk), d.disk->unsuitable);
        return -1;
      }
      skip (s, d.disk, d.disk->unsuitable);
      continue;
    }
    if (identify (s, replica, given, &d, &known, &sure) == -1 ||
        plan_disk (s, request, generation, known, &d) == -1)
      return -1;
    if (source_disks_append (&s->disks, d) == -1) {
      log_error ("out of memory");
      return -1;
    }
  }
  if (s->disks.len == 0) {
    log_error ("%s: no disk that can be replicated", s->spec);
    return -1;
  }
  if (s->disks.len > DISKS_MAX) {
    log_error ("%s: more than %d disks", s->spec, DISKS_MAX);
    return -1;
  }
  json_get_bool (request, "full", &full);
  if (generation > 0 && !sure && !full) {
    log_error ("%s: none of its disks is known to the replica there: is that "
               "another machine's?  Give each machine a directory of its "
               "own, or --full to go on with this one", s->spec);
    return -1;
  }
  return check_names (s) == -1 ? -1 : choose_ways (s);
}

json_t *
source_plan_json (const struct source *s)
{
  json_t *list = json_array ();

  for (size_t i = 0; i < s->disks.len; i++) {
    const struct source_disk *d = &s->disks.ptr[i];

    json_t *disk =
      json_pack ("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s}",
                 "name", d->name, "node", d->disk->node, "chain", d->chain,
                 "kind", kind_name (d->decision.kind),
                 "reason", d->decision.reason,
                 "size", (json_int_t) d->disk->size,
                 "dirty_bytes", (json_int_t) d->dirty_bytes,
                 "spool_bytes", (json_int_t) d->spool_bytes,
                 "way", d->precopy ? "precopy" : "spool");

    if (d->since > 0)
      json_object_set_new (disk, "since", json_integer (d->since));
    json_array_append_new (list, disk);
  }
  return json_pack ("{s:o, s:O, s:s}", "disks", list, "skipped", s->skipped,
                    "way", s->way);
}
