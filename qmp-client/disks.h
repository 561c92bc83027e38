/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The disks of a machine, as its QEMU tells: on qemu-system the drives of
 * its devices, on a storage daemon the nodes that no other node uses.
 */
#ifndef NBDSYNC_DISKS_H
#define NBDSYNC_DISKS_H

#include <stdbool.h>
#include <stdint.h>

#include "qmp.h"
#include "vector.h"

struct bitmap {
  char *name;                   /* never NULL */
  uint64_t granularity, count;  /* bytes; count: dirty bytes */
  bool recording, busy, persistent, inconsistent;
};
DEFINE_VECTOR (bitmaps, struct bitmap)

/* A layer of the backing chain, below the active one. */
struct layer {
  char *node, *driver;
  char *file;                   /* host file; NULL: none that can be read */
  uint64_t size;                /* bytes */
  bitmaps bitmaps;              /* those with names */
};
DEFINE_VECTOR (backing_layers, struct layer)

struct disk {
  char *device;         /* qdev id, or QOM path; "": storage daemon */
  char *backend;        /* name of the drive (-drive), mostly "" */
  char *node;           /* active format node, below filters; "": no medium */
  char *driver;         /* of that node: qcow2, raw, luks ... */
  char *file;           /* host file of its protocol node; NULL if none */
  char *file_driver;    /* file, host_device, nbd ...; NULL if none */
  char *compat;         /* "1.1", "0.10" of a qcow2; NULL otherwise */
  uint64_t size;
  uint64_t allocated;   /* bytes in the host file */
  uint64_t cluster_size; /* 0 if the format has none */
  bool read_only, encrypted, iothread, external_data;
  backing_layers backing;       /* the nearest first; len 0: none */
  bitmaps bitmaps;      /* those with names, on the active node only */
  const char *unsuitable; /* NULL, or why it cannot be replicated */
  const char *spool_only; /* NULL, or why it cannot be read from outside */
};
DEFINE_VECTOR (disks, struct disk)

/* List them in QEMU's order.  *ret holds whatever was read; start from
 * = {0} and disks_free it when done.  -1 with a message.
 */
int disks_list (struct qmp *qmp, disks *ret);
void disks_free (disks *v);

/* Ask again for the bitmaps of one disk.  -1 with a message, also if its
 * node is gone.
 */
int disk_refresh_bitmaps (struct qmp *qmp, struct disk *disk);
void disk_free_bitmaps (struct disk *disk);

/* NULL if there is none of that name. */
const struct bitmap *bitmaps_find (const bitmaps *v, const char *name);

/* NULL if there is none of that name on the active node. */
const struct bitmap *disk_find_bitmap (const struct disk *disk,
                                       const char *name);

/* By device id, node or drive name; NULL if there is none. */
struct disk *disks_find (const disks *v, const char *name);

/* The name of the disk in a new replica: the device id, else the drive's
 * name if QEMU made up the node's, else the node name; owned by the disk.
 * It may still need disk_name_ok.
 */
const char *disk_default_name (const struct disk *disk);

/* Can it hold persistent bitmaps?  (qcow2, compat 1.1, writable) */
bool disk_can_persist (const struct disk *disk);

/* Is this the monitor of a storage daemon, not of a machine? */
int disks_is_storage_daemon (struct qmp *qmp, bool *ret);

#endif /* NBDSYNC_DISKS_H */
