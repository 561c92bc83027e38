/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A frame that is complete, or may be: check it, unpack it, hand it to the
 * writer.
 */
#ifndef NBDSYNC_APPLY_H
#define NBDSYNC_APPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "assemble.h"
#include "session-record.h"
#include "writer.h"

enum applied {
  APPLIED,
  BAD_SUM,                      /* wrong, or not all of it has come */
  NOT_APPLIED,                  /* *ret_wrong says why, errno perhaps more */
};

/* Apply a batch to a disk.  p->busy is set: nobody else touches it.  Waits
 * for memory and thereby for the writer.  If *ret_wrong is NULL after
 * NOT_APPLIED, the writer has failed and said so; errno is its error.
 */
enum applied apply_batch (const struct partial *p, uint64_t disk_bytes,
                          struct writer *w, const char **ret_wrong);

/* Read frame 0, whose packed bytes *ret_bytes (the caller frees them, n of
 * them) are the record.
 */
enum applied apply_record (const struct partial *p,
                           struct session_record *ret_record,
                           unsigned char **ret_bytes, size_t *ret_n,
                           const char **ret_wrong);

#endif /* NBDSYNC_APPLY_H */
