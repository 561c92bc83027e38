/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The memory of the receiver, bounded by buffer=.  Two kinds of bytes:
 * pieces of frames that are not complete, which only their client can
 * bring to an end, and bodies, which are being unpacked or written and
 * will be free again without anybody's help.
 */
#ifndef NBDSYNC_BUDGET_H
#define NBDSYNC_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

void budget_init (size_t limit);

/* Take memory for pieces.  If there is none, wait as long as bodies may
 * give some back; false if even then there is none: use the temporary file.
 */
bool budget_take_pieces (size_t n);
void budget_give_pieces (size_t n);

/* Take memory that a frame costs as long as it is incomplete, wherever its
 * pieces are.  False if such costs alone are as much as the limit.
 */
bool budget_take_costs (size_t n);
void budget_give_costs (size_t n);

/* Take memory for a body.  Waits for room, or until no other body is
 * there: one alone may exceed the limit, so that work goes on always.
 */
void budget_take_body (size_t n);
void budget_give_body (size_t n);

#endif /* NBDSYNC_BUDGET_H */
