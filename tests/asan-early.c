/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preloaded into nbdkit under AddressSanitizer, which at its start looks for
 * a function of this name.  Not finding it makes the C library translate an
 * error message; if p11-kit's constructor has brought it to this point, the
 * lock of the locale is held and is damaged by that, and nbdkit hangs when it
 * exits after an error.
 */
char *swift_demangle (void);

char *
swift_demangle (void)
{
  return 0;
}
