/* SPDX-License-Identifier: BSD-3-Clause
 *
 * "nbdsync status": what a replica has, here or on another host.  The
 * receiving agent is asked, which only looks: no lock, nothing is changed.
 */
#include <config.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent.h"
#include "cleanup.h"
#include "commands.h"
#include "json.h"
#include "log.h"
#include "runtime-dir.h"

int
ask_status (const struct place *target, const char *rsh, json_t **ret)
{
  CLEANUP_FREE char *dir = runtime_dir_create ();
  struct agent a = {
    .role = "receive", .in = -1, .out = -1,
    .transport = { .place = target, .rsh = rsh, .dir = dir },
  };
  const char *args[] = { "receive", "--", target->rest, NULL };
  int r = -1;

  if (!dir)
    return -1;
  if (agent_start (&a, args, -1) == 0)
    r = agent_call (&a, "status", json_pack ("{s:b}", "write", false),
                    AGENT_REPLY_MS, ret);
  agent_stop (&a);
  runtime_dir_remove (dir);
  return r;
}

/* "3 h 12 min" since a time. */
static void
show_age (uint64_t then)
{
  uint64_t now = time (NULL), s = now > then ? now - then : 0;

  if (s < 120)
    printf ("%" PRIu64 " s", s);
  else if (s < 7200)
    printf ("%" PRIu64 " min", s / 60);
  else if (s < 2 * 86400)
    printf ("%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
  else
    printf ("%" PRIu64 " days", s / 86400);
}

static uint64_t
newest (const json_t *status)
{
  uint64_t t = 0, checked = 0;

  json_get_u64 (status, "time", &t);
  json_get_u64 (status, "checked", &checked);
  return checked > t ? checked : t;
}

static void
show (const char *target, const json_t *status)
{
  uint64_t generation = 0, size, image;
  json_t *d;
  size_t i;

  json_get_u64 (status, "generation", &generation);
  printf ("%s: generation %" PRIu64 ", equal to its source ", target,
          generation);
  show_age (newest (status));
  puts (" ago");
  printf ("%-12s %10s %10s  %s\n", "DISK", "SIZE", "IMAGE", "SOURCE");
  json_array_foreach (json_object_get (status, "disks"), i, d) {
    char a[SIZE_TEXT_MAX], b[SIZE_TEXT_MAX];
    const char *name = json_get_string (d, "name");
    const char *source = json_get_string (d, "source");

    size = image = 0;
    json_get_u64 (d, "size", &size);
    json_get_u64 (d, "image_bytes", &image);
    printf ("%-12s %10s %10s  %s\n", name ? name : "?", size_text (size, a),
            size_text (image, b), source ? source : "");
    if (json_get_string (d, "problem"))
      printf ("    problem: %s\n", json_get_string (d, "problem"));
  }
}

static bool
has_problem (const json_t *status)
{
  json_t *d;
  size_t i;

  json_array_foreach (json_object_get (status, "disks"), i, d)
    if (json_object_get (d, "problem"))
      return true;
  return false;
}

int
command_status (int argc, char *argv[])
{
  static const struct option options[] = {
    { "json", no_argument, NULL, 'j' },
    { "rsh", required_argument, NULL, 'e' },
    COMMON_OPTIONS,
    { 0 },
  };
  CLEANUP_JSON json_t *status = NULL;
  struct place target = { 0 };
  const char *rsh = "ssh";
  bool json = false;
  uint64_t generation = 0;
  int c, r;

  while ((c = getopt_long (argc, argv, "e:", options, NULL)) != -1)
    if (c == 'j')
      json = true;
    else if (c == 'e')
      rsh = optarg;
    else
      return common_option (c);
  if (optind + 1 != argc) {
    log_error ("status: it takes one argument, DIR or HOST:DIR");
    return EXIT_USAGE;
  }
  if (place_parse (argv[optind], &target) == -1)
    return EXIT_USAGE;
  r = ask_status (&target, rsh, &status);
  place_reset (&target);
  if (r == -1)
    return EXIT_FAILURE;
  json_get_u64 (status, "generation", &generation);
  if (generation == 0) {
    log_error ("%s: no replica (\"nbdsync sync SOURCE %s\" makes one)",
               argv[optind], argv[optind]);
    return EXIT_FAILURE;
  }
  if (json) {
    json_object_set_new (status, "age_seconds",
                         json_integer (time (NULL) - newest (status)));
    json_dumpf (status, stdout, JSON_INDENT (2));
    putchar ('\n');
  }
  else
    show (argv[optind], status);
  return fflush (stdout) == 0 && !has_problem (status) ? EXIT_SUCCESS
    : EXIT_FAILURE;
}
