/* SPDX-License-Identifier: BSD-3-Clause
 *
 * "nbdsync cleanup" and "nbdsync forget": what is left of sessions and of
 * chains at the source.
 *
 * cleanup does what every sync does for its own chain when it begins, for
 * all chains that it finds: jobs and nodes, bitmaps of passes, scratch
 * directories.  A bitmap "since generation N" is no rest: only the replica
 * knows whether it needs it.  forget removes those as well, of chains that
 * the user names.  Either touches a chain only under its lock.
 */
#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "chain.h"
#include "cleanup.h"
#include "commands.h"
#include "json.h"
#include "log.h"
#include "source.h"
#include "spool.h"
#include "sync-options.h"

#define OUR_PREFIX "nbdsync-"

struct tag {
  char text[CHAIN8_CHARS + 1];
};
DEFINE_VECTOR (tags, struct tag)

/* Add the tag of a name "nbdsync-TAG-..." unless it is there. */
static int
add_tag (tags *all, const char *name)
{
  struct tag t;
  size_t n = strlen (OUR_PREFIX);

  if (!name || strncmp (name, OUR_PREFIX, n) != 0 ||
      strspn (name + n, "0123456789abcdef") != CHAIN8_CHARS ||
      name[n + CHAIN8_CHARS] != '-')
    return 0;
  memcpy (t.text, name + n, CHAIN8_CHARS);
  t.text[CHAIN8_CHARS] = '\0';
  for (size_t i = 0; i < all->len; i++)
    if (strcmp (all->ptr[i].text, t.text) == 0)
      return 0;
  if (tags_append (all, t) == -1) {
    log_error ("out of memory");
    return -1;
  }
  return 0;
}

/* All chains that have anything in this QEMU: bitmaps, nodes, jobs. */
static int
find_tags (struct source *s, tags *all)
{
  CLEANUP_JSON json_t *nodes = NULL, *jobs = NULL;
  json_t *v;
  size_t i;

  for (i = 0; i < s->all.len; i++) {
    const struct disk *d = &s->all.ptr[i];

    for (size_t j = 0; j < d->bitmaps.len; j++)
      if (add_tag (all, d->bitmaps.ptr[j].name) == -1)
        return -1;
  }
  if (qmp_execute (s->qmp, "query-named-block-nodes",
                   json_pack ("{s:b}", "flat", 1), &nodes) == -1 ||
      qmp_execute (s->qmp, "query-jobs", NULL, &jobs) == -1)
    return -1;
  json_array_foreach (nodes, i, v)
    if (add_tag (all, json_get_string (v, "node-name")) == -1)
      return -1;
  json_array_foreach (jobs, i, v)
    if (add_tag (all, json_get_string (v, "id")) == -1)
      return -1;
  return 0;
}

/* Settle one chain; with 'forget' its bitmaps go as well. */
static int
settle_chain (struct source *s, const char *tag, bool forget)
{
  CLEANUP_FD int lock = chain_lock (tag, tag, 0);
  int r;

  if (lock == -1)
    return -1;
  r = s->stopped ? 0 : spool_settle (s->qmp, tag);
  for (size_t i = 0; i < s->all.len; i++) {
    struct source_disk d = { .disk = &s->all.ptr[i] };

    if (d.disk->node[0] == '\0')
      continue;
    strcpy (d.tag, tag);
    if (chain_remove_bitmaps (s->qmp, d.disk->node, tag, "", !forget) == -1)
      r = -1;
    scratch_settle (s, &d);
  }
  return r;
}

static int
settle (const char *spec, const tags *only, bool forget)
{
  struct source s = { 0 };
  tags found = { 0 };
  int r = source_open (&s, spec), error = errno;

  if (r == 0 && !only && find_tags (&s, &found) == -1)
    r = -1;
  for (size_t i = 0; r == 0 && i < (only ? only : &found)->len; i++) {
    const char *tag = (only ? only : &found)->ptr[i].text;

    r = settle_chain (&s, tag, forget);
    error = errno;
    if (r == 0)
      printf ("chain %s: %s\n", tag, forget ? "forgotten" : "settled");
  }
  source_close (&s);
  tags_reset (&found);
  if (r == -1)
    return error == EBUSY ? EXIT_BUSY : EXIT_FAILURE;
  return fflush (stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
command_cleanup (int argc, char *argv[])
{
  CLEANUP_FREE char *source = NULL;
  CLEANUP_JSON json_t *select = NULL;
  const char *text;

  if (one_argument (argc, argv, "SOURCE", &text) == -1 ||
      source_parse (text, &source, &select) == -1)
    return EXIT_USAGE;
  return settle (source, NULL, false);
}

/* The chains that a replica has. */
static int
chains_of (const char *target, const char *rsh, tags *ret)
{
  CLEANUP_JSON json_t *status = NULL;
  struct place place = { 0 };
  json_t *d;
  size_t i;
  int r;

  if (place_parse (target, &place) == -1)
    return -1;
  r = ask_status (&place, rsh, &status);
  place_reset (&place);
  json_array_foreach (json_object_get (status, "disks"), i, d) {
    CLEANUP_FREE char *name = NULL;
    const char *chain = json_get_string (d, "chain");

    if (!chain || asprintf (&name, OUR_PREFIX "%.8s-", chain) == -1) {
      name = NULL;
      continue;
    }
    if (add_tag (ret, name) == -1)
      return -1;
  }
  if (r == 0 && ret->len == 0) {
    log_error ("%s: no replica; name its chain by --chain=ID "
               "(\"nbdsync disks\" lists the bitmaps, nbdsync-ID-...)",
               target);
    return -1;
  }
  return r;
}

int
command_forget (int argc, char *argv[])
{
  static const struct option options[] = {
    { "chain", required_argument, NULL, 'c' },
    { "rsh", required_argument, NULL, 'e' },
    COMMON_OPTIONS,
    { 0 },
  };
  CLEANUP_FREE char *source = NULL, *name = NULL;
  CLEANUP_JSON json_t *select = NULL;
  const char *rsh = "ssh", *chain = NULL;
  tags all = { 0 };
  int c, r = EXIT_FAILURE;

  while ((c = getopt_long (argc, argv, "e:", options, NULL)) != -1)
    if (c == 'c')
      chain = optarg;
    else if (c == 'e')
      rsh = optarg;
    else
      return common_option (c);
  if (optind + (chain ? 1 : 2) != argc) {
    log_error ("forget: it takes SOURCE and TARGET, or --chain=ID and "
               "SOURCE");
    return EXIT_USAGE;
  }
  if (source_parse (argv[optind], &source, &select) == -1)
    return EXIT_USAGE;
  if (chain) {
    if (asprintf (&name, OUR_PREFIX "%.8s-", chain) == -1)
      name = NULL;
    if (!name || add_tag (&all, name) == -1 || all.len == 0) {
      log_error ("--chain=%s: not the first eight digits of a chain", chain);
      return EXIT_USAGE;
    }
  }
  else if (chains_of (argv[optind + 1], rsh, &all) == -1)
    goto out;
  r = settle (source, &all, true);
 out:
  tags_reset (&all);
  return r;
}
