/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The source agent: what its parts share.
 *
 *   source.c        verbs, and the life of a session
 *   source-open.c   the machine's monitor, or its images
 *   source-plan.c   which disks, and how each of them will go
 *   source-pass.c   the passes: bitmaps, spool, precopy, streams
 *   scratch.c       room for spools and map files
 */
#ifndef NBDSYNC_SOURCE_H
#define NBDSYNC_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "bitmaps.h"
#include "daemon.h"
#include "decide.h"
#include "disks.h"
#include "precopy.h"
#include "runs.h"
#include "session-record.h"
#include "stream.h"

struct source_disk {
  const struct disk *disk;      /* of source->all */
  char name[DISK_NAME_MAX + 1]; /* in the replica */
  char chain[UUID_CHARS + 1];
  char former[UUID_CHARS + 1];  /* chain that a full sync leaves; or "" */
  char tag[CHAIN8_CHARS + 1];
  struct decision decision;
  uint64_t base;                /* generation; 0: full */
  uint64_t granularity;         /* of its new bitmap */
  uint64_t dirty_bytes;         /* bitmap's count; full: what it occupies */
  uint64_t spool_bytes;         /* what a spool of it would take */
  bool precopy;                 /* read by precopy before the final spool */
  char good_bitmap[BITMAP_NAME_MAX]; /* since the replica's generation, to
                                be kept until the commit; "": none is good */
  char base_bitmap[BITMAP_NAME_MAX]; /* the same if it is the plan; "": full */
  const char *base_node;        /* that has it */
  unsigned base_above;          /* images above that node, part of the plan */
  uint64_t since;               /* generation of base_bitmap, if older than
                                   base: then 'differences' are as well */
  struct runs differences;      /* owned */
  char last_bitmap[BITMAP_NAME_MAX]; /* what the next pass must send */
  char sent_bitmap[BITMAP_NAME_MAX]; /* what the pass in hand sends */
  char new_bitmap[BITMAP_NAME_MAX];  /* since the target generation */
  char *scratch;                /* private directory; owned */
  int lock_fd;                  /* of the chain; -1: not held */

  unsigned pass;                /* passes begun, this session */
  bool in_pass;                 /* takes part in the pass in hand */
  char *image, *map, *list;     /* spool, map file, list of a composed plan;
                                   owned */
  struct precopy_state state;
  struct stream stream;
  struct stream_stats done;     /* of the passes that ended, summed */
};
DEFINE_VECTOR (source_disks, struct source_disk)

#define FOR_EACH_DISK(s, d)                                             \
  for (struct source_disk *d = (s)->disks.ptr;                          \
       d < (s)->disks.ptr + (s)->disks.len; d++)

enum pass_state { PASS_NONE, PASS_PRECOPY, PASS_FINAL };

struct source {
  char *spec;                   /* "qmp:..." or "image:..." */
  char *host;                   /* this one's name, for people */
  bool stopped;                 /* image: no machine has the disks open */
  struct qmp *qmp;              /* the machine's; stopped: the daemon's */
  struct daemon daemon;
  char **files;                 /* stopped: the image files */
  size_t nr_files;

  disks all;                    /* everything the machine has */
  source_disks disks;           /* those that are replicated */
  json_t *skipped;              /* the others: name, node, reason; owned */

  /* From "plan". */
  char *machine;                /* --name */
  char *scratch_dir;            /* --scratch */
  int64_t scratch_limit, final_limit; /* bytes; -1: by free space */
  struct stream_options stream;

  /* A session. */
  char *dir;                    /* runtime directory of the agent */
  char session[17];             /* id, 16 hexadecimal digits */
  uint64_t target, started;
  enum pass_state pass;
  bool more;                    /* another precopy pass pays */
  unsigned outgrown;            /* times that the final spool was too small */
  uint64_t left_bytes;          /* for the final spool, after the last pass;
                                   before the first: what it has to send */
  int64_t pass_ms;              /* when the pass in hand began */
  unsigned hold_ms;             /* longest time the guest may have waited */
  const char *way;              /* spool or precopy, for -v */
};

/* source-open.c: connect, and list the disks.  -1 with a message, errno EBUSY
 * if somebody else uses the monitor or the machine migrates; close in any
 * case.
 */
int source_open (struct source *s, const char *spec);
void source_close (struct source *s);

/* Are the planned disks still on the same nodes, and of the same size?  -1
 * with a message.
 */
int source_check_nodes (struct source *s);

/* source-plan.c: choose disks and names and decide about each.  'request'
 * has members replica, full, select and so on (see nbdsync-formats(5)).
 */
int source_plan (struct source *s, const json_t *request);

/* Is its plan put together from more than the active node's bitmap? */
bool source_is_composed (const struct source_disk *d);

/* The plan as the answer: an array of disks. */
json_t *source_plan_json (const struct source *s);

/* source-pass.c */
int source_next_pass (struct source *s, json_t **ret);
int source_end_pass (struct source *s, json_t **ret);
json_t *source_stats (struct source *s);

/* Stop streams and remove their files, whatever state they are in. */
void source_stop_streams (struct source *s);

/* Open the images of a stopped machine in the private daemon (errno EBUSY:
 * the machine runs), and end it so that its bitmaps are stored.
 */
int source_open_daemon (struct source *s);
int source_quit_daemon (struct source *s);

/* scratch.c: a private directory for one disk's files, beside its image or
 * below --scratch; what an earlier run of the same chain left there is
 * removed.  -1 with a message.
 */
int scratch_create (struct source *s, struct source_disk *d);
void scratch_remove (struct source_disk *d);

/* Remove what a dead run of d's chain (d->tag, whose lock the caller has)
 * left in the places where scratch directories go without --scratch.
 */
void scratch_settle (const struct source *s, const struct source_disk *d);

/* Where it would be, an allocated string, and what is free there. */
char *scratch_parent (const struct source *s, const struct disk *disk);
int scratch_free_bytes (const char *dir, uint64_t *ret);

#endif /* NBDSYNC_SOURCE_H */
