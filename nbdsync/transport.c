/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Agents and sockets, here or through ssh.
 *
 * The first ssh carries the agent's standard input and output and is the
 * master of a shared connection; sockets are forwarded by requests to it.
 * So one connection carries all, and when it goes, all is gone.
 */
#include <config.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "log.h"
#include "transport.h"

#define FORWARD_TIMEOUT_MS 30000

int
place_parse (const char *text, struct place *ret)
{
  const char *colon = NULL, *rest;
  CLEANUP_FREE char *host = NULL;
  const char *bracket = strchr (text, '[');

  /* user@[::1]:dir: the colons inside the brackets are not ours. */
  if (bracket && (bracket == text || bracket[-1] == '@') &&
      memchr (text, '/', bracket - text) == NULL) {
    const char *end = strchr (bracket, ']');
    if (end && end[1] == ':')
      colon = end + 1;
  }
  else {
    colon = strchr (text, ':');
    if (colon && memchr (text, '/', colon - text))
      colon = NULL;
  }
  rest = colon ? colon + 1 : text;
  if (colon) {
    if (colon == text || text[0] == '-') {
      log_error ("%s: no host before the colon", text);
      return -1;
    }
    host = strndup (text, colon - text);
    if (!host)
      goto oom;
    if (bracket && colon[-1] == ']') {
      /* ssh takes the address without brackets. */
      char *b = strchr (host, '[');
      memmove (b, b + 1, strlen (b));
      host[strlen (host) - 1] = '\0';
    }
  }
  if (rest[0] == '\0') {
    log_error ("%s: no directory after the host", text);
    return -1;
  }
  ret->rest = strdup (rest);
  if (!ret->rest)
    goto oom;
  ret->host = TAKE_PTR (host);
  return 0;

 oom:
  log_error ("%s: %m", text);
  return -1;
}

void
place_reset (struct place *place)
{
  free (place->host);
  free (place->rest);
  memset (place, 0, sizeof *place);
}

/* Quote for the shell that sshd starts. */
static char *
shell_quote (const char *word)
{
  char *quoted = malloc (strlen (word) * 4 + 3), *p = quoted;

  if (!quoted)
    return NULL;
  *p++ = '\'';
  for (; *word; word++)
    if (*word == '\'')
      p = stpcpy (p, "'\\''");
    else
      *p++ = *word;
  strcpy (p, "'");
  return quoted;
}

/* "nbdsync" and its arguments as one line of shell. */
static char *
remote_line (const char *const *argv)
{
  char *line = strdup ("exec nbdsync");

  for (; line && *argv; argv++) {
    CLEANUP_FREE char *quoted = shell_quote (*argv);
    CLEANUP_FREE char *before = line;
    if (!quoted || asprintf (&line, "%s %s", before, quoted) == -1)
      line = NULL;
  }
  return line;
}

/* Append the words of --rsh, split at spaces into *copy. */
static int
append_rsh (argv_vector *argv, const char *rsh, char **copy)
{
  char *save, *word;

  *copy = strdup (rsh);
  if (!*copy)
    return -1;
  for (word = strtok_r (*copy, " ", &save); word;
       word = strtok_r (NULL, " ", &save))
    if (argv_vector_append (argv, word) == -1)
      return -1;
  return 0;
}

static int
append_words (argv_vector *argv, const char *const *words)
{
  for (; *words; words++)
    if (argv_vector_append (argv, *words) == -1)
      return -1;
  return argv_vector_append (argv, NULL);
}

static int
start_here (const char *const *args, int in, int out, struct process *ret)
{
  argv_vector argv = { 0 };
  char self[4096];
  ssize_t n = readlink ("/proc/self/exe", self, sizeof self - 1);
  int r = -1;

  /* The very program that runs now, so that both are of one version. */
  if (n == -1) {
    log_error ("/proc/self/exe: %m");
    return -1;
  }
  self[n] = '\0';
  if (argv_vector_append (&argv, self) == 0 &&
      append_words (&argv, args) == 0)
    r = process_start (ret, &(struct process_spec) {
        .argv = argv.ptr, .in = in, .out = out });
  argv_vector_reset (&argv);
  return r;
}

static int
start_there (struct transport *t, const char *const *args, int in, int out,
             struct process *ret)
{
  argv_vector argv = { 0 };
  CLEANUP_FREE char *line = remote_line (args);
  CLEANUP_FREE char *rsh = NULL, *control = NULL;
  int r = -1;

  if (!line || asprintf (&t->control, "%s/ssh", t->dir) == -1) {
    t->control = NULL;
    goto out;
  }
  if (asprintf (&control, "ControlPath=%s", t->control) == -1) {
    control = NULL;
    goto out;
  }
  const char *words[] = {
    "-T", "-o", "BatchMode=yes",
    "-o", "ControlMaster=yes", "-o", control, "-o", "ControlPersist=no",
    "-o", "StreamLocalBindUnlink=yes",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
    "--", t->place->host, line, NULL
  };
  if (append_rsh (&argv, t->rsh, &rsh) == 0 &&
      append_words (&argv, words) == 0)
    r = process_start (ret, &(struct process_spec) {
        .argv = argv.ptr, .in = in, .out = out });
 out:
  argv_vector_reset (&argv);
  return r;
}

int
transport_start (struct transport *t, const char *const *argv,
                 int in, int out, struct process *ret)
{
  if (!t->place->host)
    return start_here (argv, in, out, ret);
  return start_there (t, argv, in, out, ret);
}

char *
transport_socket (struct transport *t, const char *there, const char *name)
{
  CLEANUP_FREE char *here = NULL, *forward = NULL, *rsh = NULL;
  argv_vector argv = { 0 };
  int r = -1;

  if (!t->place->host)
    return strdup (there);
  if (asprintf (&here, "%s/%s", t->dir, name) == -1) {
    here = NULL;
    return NULL;
  }
  if (asprintf (&forward, "%s:%s", here, there) == -1) {
    forward = NULL;
    return NULL;
  }
  const char *words[] = { "-S", t->control, "-O", "forward", "-L", forward,
                          "--", t->place->host, NULL };
  if (append_rsh (&argv, t->rsh, &rsh) == 0 &&
      append_words (&argv, words) == 0)
    r = process_run (argv.ptr, FORWARD_TIMEOUT_MS, NULL);
  argv_vector_reset (&argv);
  return r == 0 ? TAKE_PTR (here) : NULL;
}

void
transport_reset (struct transport *t)
{
  free (t->control);
  t->control = NULL;
}
