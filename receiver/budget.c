/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The memory of the receiver: three counters under one lock, which is taken
 * last of all.  budget_take_pieces may wait while its caller holds the lock
 * of a disk: bodies are given back by writers, which need no such lock.
 */
#include <config.h>

#include <pthread.h>

#include "budget.h"
#include "cleanup.h"
#include "frame.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given_back = PTHREAD_COND_INITIALIZER;
static size_t limit, pieces, costs, bodies;
static size_t pieces_limit;     /* what is left beside it holds any body */

static bool
fits_locked (size_t n)
{
  size_t used = pieces + costs + bodies;

  return used <= limit && n <= limit - used;
}

void
budget_init (size_t new_limit)
{
  limit = new_limit;
  pieces_limit = limit - (limit / 2 < UNPACKED_MAX_BYTES ? limit / 2
                          : UNPACKED_MAX_BYTES);
}

bool
budget_take_pieces (size_t n)
{
  LOCK_FOR_SCOPE (&lock);
  while (!fits_locked (n) && bodies > 0)
    pthread_cond_wait (&given_back, &lock);
  if (!fits_locked (n) || pieces + costs + n > pieces_limit)
    return false;
  pieces += n;
  return true;
}

bool
budget_take_costs (size_t n)
{
  LOCK_FOR_SCOPE (&lock);
  if (costs + n > limit)
    return false;
  costs += n;
  return true;
}

void
budget_take_body (size_t n)
{
  LOCK_FOR_SCOPE (&lock);
  while (!fits_locked (n) && bodies > 0)
    pthread_cond_wait (&given_back, &lock);
  bodies += n;
}

static void
give (size_t *counter, size_t n)
{
  LOCK_FOR_SCOPE (&lock);
  *counter -= n;
  pthread_cond_broadcast (&given_back);
}

void
budget_give_pieces (size_t n)
{
  give (&pieces, n);
}

void
budget_give_costs (size_t n)
{
  give (&costs, n);
}

void
budget_give_body (size_t n)
{
  give (&bodies, n);
}
