/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command's verbs, and what they share about arguments and exits.
 */
#ifndef NBDSYNC_COMMANDS_H
#define NBDSYNC_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <jansson.h>

#include "transport.h"

#define EXIT_USAGE 2
#define EXIT_BUSY 75            /* EX_TEMPFAIL of sysexits.h */

/* Each runs one verb; argv[0] is its name.  Returns the exit status. */
int command_sync (int argc, char *argv[]);
int command_status (int argc, char *argv[]);
int command_disks (int argc, char *argv[]);
int command_cleanup (int argc, char *argv[]);
int command_forget (int argc, char *argv[]);
int command_source (int argc, char *argv[]);
int command_receive (int argc, char *argv[]);

/* What a replica has, as its agent says (see receive.c); nothing is changed
 * there.  -1 with a message.
 */
int ask_status (const struct place *target, const char *rsh, json_t **ret);

/* Set by -v of the verbs that have it: details go to standard error. */
void set_verbose (void);

/* The first error that was reported: the cause of what followed. */
const char *first_error (void);

/* For verbs whose only options are --help and --version, which are handled
 * and exit.  -1 with a message if the arguments are not as they should be.
 */
int no_arguments (int argc, char *argv[]);
int one_argument (int argc, char *argv[], const char *what,
                  const char **ret);

/* What every verb does about --help, --version and what it does not know:
 * 'c' is getopt_long's answer.  Returns the exit status, or -1 if c is
 * none of these.
 */
enum { OPTION_HELP = 1000, OPTION_VERSION };
int common_option (int c);
#define COMMON_OPTIONS                          \
  { "help", no_argument, NULL, OPTION_HELP },   \
  { "version", no_argument, NULL, OPTION_VERSION }

/* A number of bytes with nbdkit's suffixes (K, M, G, T ... by 1024).  -1
 * with a message that names the option.
 */
int parse_size (const char *option, const char *text, uint64_t *ret);

/* A number of bits a second with the suffixes of nbdkit's rate filter. */
int parse_rate (const char *option, const char *text, uint64_t *ret);

int parse_number (const char *option, const char *text, long min, long max,
                  long *ret);

/* "1.5 GiB" into buf, which is returned. */
#define SIZE_TEXT_MAX 16
const char *size_text (uint64_t bytes, char buf[SIZE_TEXT_MAX]);

#endif /* NBDSYNC_COMMANDS_H */
