/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where an end of a sync is: on this host, or behind ssh.
 */
#ifndef NBDSYNC_TRANSPORT_H
#define NBDSYNC_TRANSPORT_H

#include "process.h"

/* "[USER@]HOST:REST" taken apart; HOST may be a bracketed IPv6 address. */
struct place {
  char *host;                   /* "user@host" for ssh; NULL: this host */
  char *rest;                   /* a directory, or a source */
};

/* Take a target or source apart as rsync does: a colon before the first
 * slash makes it remote.  -1 with a message if there is no host or no rest.
 */
int place_parse (const char *text, struct place *ret);
void place_reset (struct place *place);

struct transport {
  const struct place *place;    /* not owned */
  const char *rsh;              /* ssh and its options, "ssh" by default */
  const char *dir;              /* private runtime directory, not owned */
  char *control;                /* ssh's control socket, owned */
};

/* Start "nbdsync ARGV..." (argv is without "nbdsync") there, its standard
 * input and output on the given descriptors.  Over ssh this process is the
 * connection: everything there ends with it.
 */
int transport_start (struct transport *t, const char *const *argv,
                     int in, int out, struct process *ret);

/* A unix socket here that reaches the unix socket 'there': itself, or one
 * that ssh forwards.  'name' is a file name unique in t->dir.  Returns the
 * path, which the caller frees; NULL with a message.
 */
char *transport_socket (struct transport *t, const char *there,
                        const char *name);

void transport_reset (struct transport *t);

#endif /* NBDSYNC_TRANSPORT_H */
