/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The arguments of "nbdsync sync", checked before anything is started.
 */
#include <config.h>

#include <getopt.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "commands.h"
#include "frame.h"
#include "log.h"
#include "sync-options.h"

int
source_parse (const char *text, char **ret_source, json_t **ret_select)
{
  CLEANUP_FREE char *copy = strdup (text);
  json_t *select = json_array ();
  char *p, *disk;

  if (!copy || !select)
    goto oom;
  if (strncmp (copy, "qmp:", 4) != 0 && strncmp (copy, "image:", 6) != 0) {
    log_error ("%s: not a source: it is qmp:SOCKET or image:FILE", text);
    goto err;
  }
  p = strstr (copy, ",disk=");
  if (p)
    *p++ = '\0';
  if (copy[strcspn (copy, ":") + 1] == '\0') {
    log_error ("%s: nothing after the colon", text);
    goto err;
  }
  while ((disk = p)) {
    p = strstr (disk, ",disk=");
    if (p)
      *p++ = '\0';
    if (disk[5] == '\0' || disk[5] == '=') {
      log_error ("%s: disk= without a disk", text);
      goto err;
    }
    if (json_array_append_new (select, json_string (disk + 5)) == -1)
      goto oom;
  }
  *ret_source = TAKE_PTR (copy);
  *ret_select = select;
  return 0;

 oom:
  log_error ("%s: out of memory", text);
 err:
  json_decref (select);
  return -1;
}

static int
check_level (const char *text)
{
  long level;

  if (strcmp (text, "auto") == 0)
    return 0;
  return parse_number ("level", text, LEVEL_MIN, LEVEL_MAX, &level);
}

/* A numeric option under the name that the agents know it by. */
static int
number (struct sync_options *o, const char *option, const char *key,
        uint64_t min, uint64_t max, bool rate)
{
  uint64_t v;

  if ((rate ? parse_rate : parse_size) (option, optarg, &v) == -1)
    return -1;
  if (v < min || v > max) {
    char a[SIZE_TEXT_MAX], b[SIZE_TEXT_MAX];
    log_error ("--%s=%s: not from %s to %s", option, optarg,
               size_text (min, a), size_text (max, b));
    return -1;
  }
  return json_object_set_new (o->numbers, key, json_integer (v));
}

/* QEMU runs in another directory, so it gets the absolute name. */
static int
scratch (struct sync_options *o)
{
  free (o->scratch);
  o->scratch = realpath (optarg, NULL);
  if (o->scratch)
    return 0;
  log_error ("--scratch=%s: %m", optarg);
  return -1;
}

static int
granularity (struct sync_options *o)
{
  uint64_t v;

  if (number (o, "granularity", "granularity", 512, UINT64_C (2) << 30,
              false) == -1)
    return -1;
  v = json_integer_value (json_object_get (o->numbers, "granularity"));
  if (v & (v - 1)) {
    log_error ("--granularity=%s: not a power of two", optarg);
    return -1;
  }
  return 0;
}

static int
parse_options (int argc, char *argv[], struct sync_options *o)
{
  enum { FULL = 1, SHRINK, SCRATCH, SCRATCH_LIMIT, FINAL_LIMIT, GRANULARITY,
         LEVEL, BATCH, BUFFER, CONNECTIONS, RATE, STALL, NAME, JSON, PROGRESS };
  static const struct option options[] = {
    { "full", no_argument, NULL, FULL },
    { "allow-shrink", no_argument, NULL, SHRINK },
    { "dry-run", no_argument, NULL, 'n' },
    { "scratch", required_argument, NULL, SCRATCH },
    { "scratch-limit", required_argument, NULL, SCRATCH_LIMIT },
    { "final-limit", required_argument, NULL, FINAL_LIMIT },
    { "granularity", required_argument, NULL, GRANULARITY },
    { "level", required_argument, NULL, LEVEL },
    { "batch", required_argument, NULL, BATCH },
    { "buffer", required_argument, NULL, BUFFER },
    { "connections", required_argument, NULL, CONNECTIONS },
    { "rate", required_argument, NULL, RATE },
    { "stall-timeout", required_argument, NULL, STALL },
    { "name", required_argument, NULL, NAME },
    { "rsh", required_argument, NULL, 'e' },
    { "json", no_argument, NULL, JSON },
    { "progress", no_argument, NULL, PROGRESS },
    { "verbose", no_argument, NULL, 'v' },
    COMMON_OPTIONS,
    { 0 },
  };
  int c, r = 0;

  while (r == 0 && (c = getopt_long (argc, argv, "ne:v", options,
                                     NULL)) != -1)
    switch (c) {
    case FULL: o->full = true; break;
    case SHRINK: o->allow_shrink = true; break;
    case 'n': o->dry_run = true; break;
    case SCRATCH: r = scratch (o); break;
    case SCRATCH_LIMIT:
      r = number (o, "scratch-limit", "scratch_limit", 0, INT64_MAX, false);
      break;
    case FINAL_LIMIT:
      r = number (o, "final-limit", "final_limit", 0, INT64_MAX, false);
      break;
    case GRANULARITY: r = granularity (o); break;
    case LEVEL: o->level = optarg; r = check_level (optarg); break;
    case BATCH:
      r = number (o, "batch", "batch", BATCH_MIN_BYTES, BATCH_MAX_BYTES,
                  false);
      break;
    case BUFFER:
      r = number (o, "buffer", "buffer", 8 << 20, INT64_MAX, false);
      break;
    case CONNECTIONS:
      r = parse_number ("connections", optarg, 1, 64, &o->connections);
      break;
    case RATE: r = number (o, "rate", "rate", 1, INT64_MAX, true); break;
    case STALL:
      r = parse_number ("stall-timeout", optarg, 1, 86400,
                        &o->stall_seconds);
      break;
    case NAME: o->name = optarg; break;
    case 'e': o->rsh = optarg; break;
    case JSON: o->json = true; break;
    case PROGRESS: o->progress = true; break;
    case 'v': set_verbose (); break;
    default: common_option (c); r = -1;
    }
  return r;
}

int
sync_options_parse (int argc, char *argv[], struct sync_options *ret,
                    int *ret_status)
{
  struct sync_options o = {
    .rsh = "ssh", .level = "auto", .connections = 4,
    .stall_seconds = 60,
    .numbers = json_object (), .progress = isatty (STDERR_FILENO),
  };

  *ret_status = EXIT_USAGE;
  if (parse_options (argc, argv, &o) == -1)
    goto err;
  if (optind + 2 != argc) {
    log_error ("sync: it takes a source and a target (try \"nbdsync "
               "--help\")");
    goto err;
  }
  o.source_text = argv[optind];
  o.target_text = argv[optind + 1];
  if (source_parse (argv[optind], &o.source, &o.select) == -1 ||
      place_parse (argv[optind + 1], &o.target) == -1)
    goto err;
  *ret = o;
  return 0;

 err:
  sync_options_reset (&o);
  return -1;
}

void
sync_options_reset (struct sync_options *o)
{
  free (o->source);
  free (o->scratch);
  json_decref (o->select);
  json_decref (o->numbers);
  place_reset (&o->target);
}
