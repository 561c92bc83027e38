/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The generations below the current one, by the manifests alone; whether the
 * images are still what those say is for replica_images.  No state.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "log.h"
#include "replica-history.h"
#include "replica-private.h"

/* One step down: append this generation.  1, with its base; 0 if it is of
 * another chain or size; -1 with a message.
 */
static int
step (const struct replica *r, const struct replica_disk *top,
      uint64_t generation, uint64_t *base, pasts *ret)
{
  struct past past = { .generation = generation };
  const struct replica_disk *d;
  struct manifest m;
  int found = 0;

  if (replica_read_manifest (r, generation, &m) == -1) {
    if (errno == ENOENT)
      log_error ("%s: generation %" PRIu64 " has no manifest", r->path,
                 generation);
    return -1;
  }
  d = manifest_disk (&m, top->name);
  if (d && d->size == top->size && strcmp (d->chain, top->chain) == 0) {
    *base = d->base;
    past.source = strdup (d->source ? d->source : "");
    found = past.source && pasts_append (ret, past) == 0 ? 1 : -1;
  }
  manifest_reset (&m);
  if (found == -1) {
    log_error ("%s: out of memory", r->path);
    free (past.source);
  }
  return found;
}

int
replica_history (const struct replica *r, const char *disk, pasts *ret)
{
  const struct replica_disk *top =
    r->has_current ? manifest_disk (&r->current, disk) : NULL;
  uint64_t generation = top ? top->base : 0;

  while (generation != 0 && ret->len < HISTORY_MAX) {
    uint64_t below;
    int found = step (r, top, generation, &below, ret);

    if (found <= 0)
      return found;
    generation = below;
  }
  return 0;
}

void
pasts_free (pasts *v)
{
  for (size_t i = 0; i < v->len; i++)
    free (v->ptr[i].source);
  pasts_reset (v);
}
