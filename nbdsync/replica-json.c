/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A replica as JSON.  No state.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "log.h"
#include "replica-json.h"

json_t *
replica_to_json (const struct replica *r)
{
  const struct manifest *m = replica_current (r);
  json_t *disks, *json;
  struct replica_identity id;
  char session[17] = "";

  if (replica_identity (r, &id) == -1)
    return NULL;
  disks = json_array ();
  for (size_t i = 0; m && i < m->disks.len; i++) {
    const struct replica_disk *d = &m->disks.ptr[i];

    json_array_append_new (
      disks, json_pack ("{s:s, s:s, s:I, s:I, s:I, s:s*}",
                        "name", d->name, "chain", d->chain,
                        "size", (json_int_t) d->size,
                        "base", (json_int_t) d->base,
                        "image_bytes", (json_int_t) d->image_bytes,
                        "source", d->source));
  }
  if (m)
    snprintf (session, sizeof session, "%016" PRIx64, m->session);
  json = json_pack ("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:o}",
                    "id", id.id, "last", (json_int_t) id.last,
                    "copied", (json_int_t) id.copied,
                    "generation", (json_int_t) (m ? m->generation : 0),
                    "time", (json_int_t) (m ? m->time : 0),
                    "checked", (json_int_t) replica_checked_time (r),
                    "session", session, "disks", disks);
  if (!json)
    log_error ("replica: out of memory");
  return json;
}
