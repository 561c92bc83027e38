/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Growing arrays: DEFINE_VECTOR (extents, struct extent) defines the type
 * 'extents' with members ptr, len and cap, and the functions
 *   int extents_append (extents *v, struct extent elem)   0, or -1 (ENOMEM)
 *   void extents_reset (extents *v)                       frees the array
 * Start from = {0}.  Elements are copied; what they point at is the
 * owner's business.
 */
#ifndef NBDSYNC_VECTOR_H
#define NBDSYNC_VECTOR_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline int
vector_reserve (void **ptr, size_t *cap, size_t need, size_t elem_bytes)
{
  size_t want = *cap ? *cap : 16;
  void *p;

  if (need <= *cap)
    return 0;
  while (want < need) {
    if (want > SIZE_MAX / 2 / elem_bytes) {
      errno = ENOMEM;
      return -1;
    }
    want += want / 2;
  }
  p = realloc (*ptr, want * elem_bytes);
  if (!p)
    return -1;
  *ptr = p;
  *cap = want;
  return 0;
}

#define DEFINE_VECTOR(name, type)                                       \
  typedef struct name {                                                 \
    type *ptr;                                                          \
    size_t len, cap;                                                    \
  } name;                                                               \
                                                                        \
  static inline int __attribute__ ((unused))                            \
  name##_append (name *v, type elem)                                    \
  {                                                                     \
    void *p = v->ptr;                                                   \
    if (vector_reserve (&p, &v->cap, v->len + 1, sizeof (type)) == -1)  \
      return -1;                                                        \
    v->ptr = p;                                                         \
    v->ptr[v->len++] = elem;                                            \
    return 0;                                                           \
  }                                                                     \
                                                                        \
  static inline void __attribute__ ((unused))                           \
  name##_reset (name *v)                                                \
  {                                                                     \
    free (v->ptr);                                                      \
    memset (v, 0, sizeof *v);                                           \
  }

#endif /* NBDSYNC_VECTOR_H */
