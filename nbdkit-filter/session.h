/* SPDX-License-Identifier: BSD-3-Clause
 *
 * delta-session=FILE: the fields of the session record that the user
 * gives, and the frame that is made of them.
 */
#ifndef NBDSYNC_SEND_SESSION_H
#define NBDSYNC_SEND_SESSION_H

#include "session-record.h"

/* Read the file (NULL: none was given) and fill in defaults; size, frames,
 * data_bytes and granularity are left to the caller.  'partial' says that
 * the plan is not the whole disk: then base and chain must be given.
 * Returns -1 with a message.  Reset *ret when done.
 */
int session_load (const char *path, bool partial, struct session_record *ret,
                  uint64_t *ret_session);

/* The session record as frame 0, owned by the caller.  NULL with a
 * message.
 */
unsigned char *session_frame (const struct session_record *record,
                              uint64_t session, size_t *ret_bytes);

#endif /* NBDSYNC_SEND_SESSION_H */
