/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nbdsync: the verbs, and what they share about arguments.
 */
#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "log.h"

static const char usage[] =
"nbdsync replicates the disks of running QEMU machines, again and again,\n"
"sending only what changed.\n"
"\n"
"  nbdsync sync [OPTIONS] SOURCE TARGET   make the replica equal the source\n"
"  nbdsync status [--json] TARGET         what the replica has\n"
"  nbdsync disks [--json] SOURCE          the disks of a machine\n"
"  nbdsync cleanup SOURCE                 remove what dead syncs left there\n"
"  nbdsync forget SOURCE TARGET           end a replication: remove its bitmaps\n"
"  nbdsync forget --chain=ID SOURCE       the same if the target is lost\n"
"  nbdsync source, nbdsync receive DIR    the two agents that sync starts\n"
"\n"
"SOURCE is one of\n"
"  qmp:SOCKET[,disk=NODE[=NAME]...]       a running QEMU, by its monitor\n"
"  image:FILE[,FILE...][,disk=NODE=NAME]  images that no machine has open\n"
"TARGET is DIR or [USER@]HOST:DIR.\n"
"\n"
"Options of sync:\n"
"  --full                 send everything, whatever the bitmaps say\n"
"  --allow-shrink         follow a disk that has become smaller\n"
"  -n, --dry-run          say what would be sent and why, send nothing\n"
"  --scratch=DIR          where spools go [beside each image]\n"
"  --scratch-limit=SIZE   spool at most this much, else precopy; 0: always\n"
"                         precopy [a quarter of what is free, at most 4G]\n"
"  --final-limit=SIZE     what the last spool of a precopy may take [the same]\n"
"  --granularity=SIZE     of new bitmaps [4K, more on disks over 2T]\n"
"  --level=LEVEL          of zstd: auto, -7 to 19 [auto]\n"
"  --batch=SIZE           data in a frame [4M]\n"
"  --buffer=SIZE          memory at each end [256M]\n"
"  --connections=N        of nbdcopy, for each disk [4]\n"
"  --rate=BITS            at most so many bits a second, 100M say\n"
"  --stall-timeout=N      give up when nothing has moved for N seconds [60]\n"
"  --name=NAME            of the machine, for people [this host's name]\n"
"  -e, --rsh=COMMAND      how to reach HOST [ssh]\n"
"  --json                 the result as one JSON object\n"
"  --progress             show progress even if stderr is no terminal\n"
"  -v, --verbose          say what is done and why\n"
"All verbs have --help and --version.  Exit status: 0 done, 1 failed,\n"
"2 wrong usage, 75 busy: another sync has the lock.  See nbdsync(1).\n";

static bool verbose;
static char *error;             /* the first that was reported */

const char *
first_error (void)
{
  return error ? error : "failed";
}

static void
sink (enum log_level level, const char *message)
{
  if (level == LOG_LEVEL_ERROR && !error)
    error = strdup (message);
  if (level == LOG_LEVEL_ERROR || verbose)
    fprintf (stderr, "nbdsync: %s\n", message);
}

void
set_verbose (void)
{
  verbose = true;
}

int
common_option (int c)
{
  switch (c) {
  case OPTION_HELP:
    fputs (usage, stdout);
    exit (fflush (stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
  case OPTION_VERSION:
    puts ("nbdsync " PACKAGE_VERSION);
    exit (fflush (stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
  case '?':
  case ':':
    fputs ("Try \"nbdsync --help\".\n", stderr);
    return EXIT_USAGE;
  default:
    return -1;
  }
}

/* Handle the common options; returns the index of the first argument. */
static int
only_common_options (int argc, char *argv[])
{
  static const struct option options[] = { COMMON_OPTIONS, { 0 } };
  int c;

  while ((c = getopt_long (argc, argv, "", options, NULL)) != -1)
    if (common_option (c) != -1)
      return -1;
  return optind;
}

int
no_arguments (int argc, char *argv[])
{
  int first = only_common_options (argc, argv);

  if (first == -1)
    return -1;
  if (first != argc) {
    log_error ("%s: unexpected argument", argv[first]);
    return -1;
  }
  return 0;
}

int
one_argument (int argc, char *argv[], const char *what, const char **ret)
{
  int first = only_common_options (argc, argv);

  if (first == -1)
    return -1;
  if (first + 1 != argc) {
    log_error ("it takes one argument, %s", what);
    return -1;
  }
  *ret = argv[first];
  return 0;
}

/* A number and a suffix of which each step is 'unit' times the last. */
static int
parse_scaled (const char *option, const char *text, unsigned unit,
              uint64_t *ret)
{
  static const char suffixes[] = "kmgtpe";
  uint64_t v, scale = 1;
  const char *s;
  char *end;

  errno = 0;
  v = strtoull (text, &end, 10);
  if (errno != 0 || end == text || text[0] == '-' || text[0] == '+')
    goto bad;
  if (*end) {
    s = strchr (suffixes, *end | 0x20);
    if (!s || end[1])
      goto bad;
    for (int i = 0; i <= s - suffixes; i++)
      scale *= unit;
  }
  if (v > INT64_MAX / scale)
    goto bad;
  *ret = v * scale;
  return 0;

 bad:
  log_error ("--%s=%s: not a number with an optional suffix K, M, G or T",
             option, text);
  return -1;
}

int
parse_size (const char *option, const char *text, uint64_t *ret)
{
  return parse_scaled (option, text, 1024, ret);
}

int
parse_rate (const char *option, const char *text, uint64_t *ret)
{
  /* nbdkit's rate filter takes its sizes by 1024 as well. */
  return parse_scaled (option, text, 1024, ret);
}

int
parse_number (const char *option, const char *text, long min, long max,
              long *ret)
{
  char *end;
  long v;

  errno = 0;
  v = strtol (text, &end, 10);
  if (errno != 0 || end == text || *end || v < min || v > max) {
    log_error ("--%s=%s: not a number from %ld to %ld", option, text, min,
               max);
    return -1;
  }
  *ret = v;
  return 0;
}

const char *
size_text (uint64_t bytes, char buf[SIZE_TEXT_MAX])
{
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB",
                                       "PiB", "EiB" };
  double v = bytes;
  int i = 0;

  while (v >= 1024 && i < 6) {
    v /= 1024;
    i++;
  }
  snprintf (buf, SIZE_TEXT_MAX, i == 0 || v >= 100 ? "%.0f %s" : "%.1f %s",
            v, units[i]);
  return buf;
}

int
main (int argc, char *argv[])
{
  static const struct {
    const char *name;
    int (*run) (int argc, char *argv[]);
  } verbs[] = {
    { "sync", command_sync }, { "status", command_status },
    { "disks", command_disks }, { "cleanup", command_cleanup },
    { "forget", command_forget }, { "source", command_source },
    { "receive", command_receive },
  };

  log_set_sink (sink);
  signal (SIGPIPE, SIG_IGN);
  if (argc < 2) {
    fputs (usage, stderr);
    return EXIT_USAGE;
  }
  for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
    if (strcmp (argv[1], verbs[i].name) == 0) {
      argv[1] = argv[0];        /* getopt's messages start with it */
      return verbs[i].run (argc - 1, argv + 1);
    }
  if (strcmp (argv[1], "--help") == 0 || strcmp (argv[1], "-h") == 0 ||
      strcmp (argv[1], "help") == 0)
    common_option (OPTION_HELP);
  if (strcmp (argv[1], "--version") == 0)
    common_option (OPTION_VERSION);
  log_error ("%s: unknown verb (try \"nbdsync --help\")", argv[1]);
  return EXIT_USAGE;
}
