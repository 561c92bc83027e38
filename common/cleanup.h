/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scope-bound release of resources, by the cleanup attribute of gcc and
 * clang.  A local that is marked is released when it leaves its scope;
 * TAKE_PTR and TAKE_FD hand its value to a new owner.
 */
#ifndef NBDSYNC_CLEANUP_H
#define NBDSYNC_CLEANUP_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP_FREE __attribute__ ((cleanup (cleanup_free)))
#define CLEANUP_FD __attribute__ ((cleanup (cleanup_fd)))
#define CLEANUP_FILE __attribute__ ((cleanup (cleanup_file)))
#define CLEANUP_UNLOCK __attribute__ ((cleanup (cleanup_unlock)))

/* Free the pointer that ptr points at; keeps errno. */
static inline void
cleanup_free (void *ptr)
{
  int saved = errno;
  free (*(void **) ptr);
  errno = saved;
}

/* Close the descriptor unless it is -1; keeps errno. */
static inline void
cleanup_fd (int *fd)
{
  int saved = errno;
  if (*fd >= 0)
    close (*fd);
  errno = saved;
}

/* Close the stream unless it is NULL; for streams that were only read. */
static inline void
cleanup_file (FILE **fp)
{
  int saved = errno;
  if (*fp)
    fclose (*fp);
  errno = saved;
}

static inline void
cleanup_unlock (pthread_mutex_t **lock)
{
  pthread_mutex_unlock (*lock);
}

static inline pthread_mutex_t *
lock_mutex (pthread_mutex_t *lock)
{
  pthread_mutex_lock (lock);
  return lock;
}

/* Hold the mutex until the end of the enclosing block. */
#define LOCK_SCOPE_NAME2(line) lock_scope_##line
#define LOCK_SCOPE_NAME(line) LOCK_SCOPE_NAME2 (line)
#define LOCK_FOR_SCOPE(mutex)                                           \
  CLEANUP_UNLOCK __attribute__ ((unused))                               \
  pthread_mutex_t *LOCK_SCOPE_NAME (__LINE__) = lock_mutex (mutex)

/* Take the value out of a marked local, so that it is not released. */
#define TAKE_PTR(p)                             \
  ({                                            \
    __typeof__ (p) taken_ = (p);                \
    (p) = NULL;                                 \
    taken_;                                     \
  })

static inline int
take_fd (int *fd)
{
  int taken = *fd;
  *fd = -1;
  return taken;
}
#define TAKE_FD(fd) take_fd (&(fd))

#endif /* NBDSYNC_CLEANUP_H */
