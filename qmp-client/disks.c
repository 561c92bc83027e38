/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The disks of a machine.
 *
 * qemu-system: query-block says which device has which top node; below the
 * filters on it is the active format node, whose bitmaps see every write of
 * the guest.  Storage daemon: a node that is nobody's child is a disk (an
 * export is no parent in this sense); so protocol nodes under format nodes
 * and backing images are none.  Everything that is asked is one snapshot of
 * the graph, taken before.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "block.h"
#include "cleanup.h"
#include "disks.h"
#include "json.h"
#include "log.h"
#include "peer.h"

#define PERIPHERAL "/machine/peripheral/"
#define LAYERS_MAX 200          /* as many as a reader opens */

static void
bitmaps_free (bitmaps *v)
{
  for (size_t i = 0; i < v->len; i++)
    free (v->ptr[i].name);
  bitmaps_reset (v);
}

void
disk_free_bitmaps (struct disk *disk)
{
  bitmaps_free (&disk->bitmaps);
}

static void
disk_free (struct disk *d)
{
  free (d->device);
  free (d->backend);
  free (d->node);
  free (d->driver);
  free (d->file);
  free (d->file_driver);
  free (d->compat);
  bitmaps_free (&d->bitmaps);
  for (size_t i = 0; i < d->backing.len; i++) {
    struct layer *l = &d->backing.ptr[i];

    free (l->node);
    free (l->driver);
    free (l->file);
    bitmaps_free (&l->bitmaps);
  }
  backing_layers_reset (&d->backing);
}

void
disks_free (disks *v)
{
  for (size_t i = 0; i < v->len; i++)
    disk_free (&v->ptr[i]);
  disks_reset (v);
}

static int
malformed (struct qmp *qmp, const char *node)
{
  log_error ("%s: node %s: QEMU's description is not what it should be",
             qmp_name (qmp), node);
  errno = EBADMSG;
  return -1;
}

static int
out_of_memory (struct qmp *qmp)
{
  log_error ("%s: out of memory", qmp_name (qmp));
  errno = ENOMEM;
  return -1;
}

/* The named bitmaps of a BlockDeviceInfo. */
static int
read_bitmaps (struct qmp *qmp, const char *node, const json_t *info,
              bitmaps *ret)
{
  json_t *json;
  size_t i;

  json_array_foreach (json_object_get (info, "dirty-bitmaps"), i, json) {
    struct bitmap b = { 0 };
    const char *name = json_get_string (json, "name");

    if (!name || name[0] == '\0')
      continue;
    if (json_get_u64 (json, "granularity", &b.granularity) == -1 ||
        json_get_u64 (json, "count", &b.count) == -1 ||
        json_get_bool (json, "recording", &b.recording) == -1 ||
        json_get_bool (json, "busy", &b.busy) == -1 ||
        json_get_bool (json, "persistent", &b.persistent) == -1)
      return malformed (qmp, node);
    json_get_bool (json, "inconsistent", &b.inconsistent); /* optional */
    b.name = strdup (name);
    if (!b.name || bitmaps_append (ret, b) == -1) {
      free (b.name);
      return out_of_memory (qmp);
    }
  }
  return 0;
}

static bool
is_protocol (const char *drv)
{
  static const char *const protocols[] = {
    "file", "host_device", "host_cdrom", "nbd", "rbd", "iscsi", "gluster",
    "nfs", "ssh", "http", "https", "ftp", "ftps", "curl", "nvme", "io_uring",
    "virtio-blk-vhost-vdpa", "virtio-blk-vhost-user",
    "virtio-blk-vfio-pci", "nvme-io_uring", "null-co", "null-aio", "vvfat",
    NULL
  };

  for (const char *const *p = protocols; *p; p++)
    if (strcmp (*p, drv) == 0)
      return true;
  return false;
}

static bool
is_local_file (const char *drv)
{
  return strcmp (drv, "file") == 0 || strcmp (drv, "host_device") == 0;
}

/* What forbids replication altogether, and what leaves only the spool. */
static void
judge (struct disk *d, bool odd_file)
{
  if (d->node[0] == '\0')
    d->unsuitable = "no medium";
  else if (d->read_only)
    d->unsuitable = "read-only";
  else if (strstr (d->device, ".flash"))
    d->unsuitable = "the firmware's flash, not a disk";
  else if (d->size == 0)
    d->unsuitable = "of size 0";
  else if (d->file_driver && strcmp (d->file_driver, "vvfat") == 0)
    d->unsuitable = "made of a directory (vvfat)";

  if (d->unsuitable)
    d->spool_only = d->unsuitable;
  else if (d->encrypted)
    d->spool_only = "encrypted";
  else if (strcmp (d->driver, "qcow2") != 0 && strcmp (d->driver, "raw") != 0)
    d->spool_only = "neither qcow2 nor raw";
  else if (d->external_data)
    d->spool_only = "its data is in an external file";
  else if (odd_file || !d->file)
    d->spool_only = "not an image in a plain file or block device";
  else
    for (size_t i = 0; i < d->backing.len; i++)
      if (!d->backing.ptr[i].file)
        d->spool_only = "based on what is not an image in a plain file or "
          "block device";
}

/* The node of the data of an image, below filters; NULL: it has none. */
static const char *
protocol_node (const struct graph *g, const char *node, const char *drv)
{
  /* A device may sit on a protocol node with no raw node between. */
  const char *file = is_protocol (drv) ? node : graph_child (g, node, "file");

  return file ? graph_skip_filters (g, file) : NULL;
}

/* One layer below the active one.  'file' stays NULL if its bytes are not
 * all in one plain, unencrypted file.
 */
static int
read_layer (struct qmp *qmp, const struct graph *g, const char *node,
            struct layer *l)
{
  const json_t *info = graph_node (g, node);
  const json_t *image = json_object_get (info, "image");
  const char *drv = json_get_string (info, "drv"), *below, *text;
  const json_t *data, *file_info;
  bool encrypted = false;

  if (!drv || json_get_u64 (image, "virtual-size", &l->size) == -1)
    return malformed (qmp, node);
  l->node = strdup (node);
  l->driver = strdup (is_protocol (drv) ? "raw" : drv);
  if (!l->node || !l->driver)
    return out_of_memory (qmp);
  below = protocol_node (g, node, drv);
  file_info = below ? graph_node (g, below) : NULL;
  data = json_object_get (json_object_get (image, "format-specific"), "data");
  json_get_bool (info, "encrypted", &encrypted);
  text = json_get_string (file_info, "drv");
  if (text && is_local_file (text) && !encrypted && strcmp (drv, "luks") != 0 &&
      !json_object_get (data, "encrypt") &&
      !json_get_string (data, "data-file") &&
      (text = json_get_string (file_info, "file")) &&
      strncmp (text, "json:", 5) != 0)
    l->file = peer_path (qmp, text);
  return read_bitmaps (qmp, node, info, &l->bitmaps);
}

static int
read_backing (struct qmp *qmp, const struct graph *g, const char *node,
              backing_layers *ret)
{
  while ((node = graph_child (g, node, "backing"))) {
    struct layer l = { 0 };
    int r;

    if (ret->len == LAYERS_MAX)
      return malformed (qmp, node);
    node = graph_skip_filters (g, node);
    r = read_layer (qmp, g, node, &l);
    if (backing_layers_append (ret, l) == -1)
      return out_of_memory (qmp);
    if (r == -1)
      return -1;
  }
  return 0;
}

/* The members that come from the nodes; 'top' may be a filter. */
static int
read_nodes (struct qmp *qmp, const struct graph *g, const char *top,
            struct disk *d)
{
  const char *node = graph_skip_filters (g, top);
  const json_t *info = graph_node (g, node), *image, *data;
  const char *drv = json_get_string (info, "drv");
  const char *below, *text;
  bool odd = false;

  image = json_object_get (info, "image");
  if (!drv || json_get_bool (info, "ro", &d->read_only) == -1 ||
      json_get_u64 (image, "virtual-size", &d->size) == -1)
    return malformed (qmp, node);
  json_get_bool (info, "encrypted", &d->encrypted);
  json_get_u64 (image, "actual-size", &d->allocated);
  json_get_u64 (image, "cluster-size", &d->cluster_size);
  if (read_backing (qmp, g, node, &d->backing) == -1)
    return -1;
  data = json_object_get (json_object_get (image, "format-specific"),
                          "data");
  if (json_object_get (data, "encrypt") || strcmp (drv, "luks") == 0)
    d->encrypted = true;
  d->external_data = json_get_string (data, "data-file") != NULL ||
    graph_child (g, node, "data-file") != NULL;
  text = json_get_string (data, "compat");
  if (text && !(d->compat = strdup (text)))
    return out_of_memory (qmp);

  below = protocol_node (g, node, drv);
  if (below) {
    uint64_t file_size = 0;
    const json_t *file_info;

    file_info = graph_node (g, below);
    text = json_get_string (file_info, "drv");
    if (!text)
      return malformed (qmp, below);
    d->file_driver = strdup (text);
    if (!d->file_driver)
      return out_of_memory (qmp);
    odd = !is_local_file (text);
    text = json_get_string (file_info, "file");
    if (!odd && text && strncmp (text, "json:", 5) != 0)
      d->file = peer_path (qmp, text);
    /* A raw node with an offset in its file. */
    json_get_u64 (json_object_get (file_info, "image"), "virtual-size",
                  &file_size);
    text = json_get_string (info, "file");
    if (strcmp (drv, "raw") == 0 &&
        (file_size != d->size ||
         (text && strncmp (text, "json:", 5) == 0 &&
          strstr (text, "\"offset\""))))
      odd = true;
  }
  d->node = strdup (node);
  d->driver = strdup (is_protocol (drv) ? "raw" : drv);
  if (!d->node || !d->driver)
    return out_of_memory (qmp);
  judge (d, odd);
  return read_bitmaps (qmp, node, info, &d->bitmaps);
}

/* Is there an iothread in the property of this QOM object? */
static int
object_has_iothread (struct qmp *qmp, const char *path, bool *ret)
{
  static const char *const names[] = { "iothread", "iothread-vq-mapping" };

  for (size_t i = 0; i < 2; i++) {
    CLEANUP_JSON json_t *value = NULL;
    const char *refusal = NULL;

    if (qmp_try (qmp, "qom-get",
                 json_pack ("{ss, ss}", "path", path, "property", names[i]),
                 QMP_TIMEOUT_MS, &value, &refusal) == -1 && !refusal)
      return -1;
    if (json_string_length (value) > 0 || json_array_size (value) > 0)
      *ret = true;
  }
  return 0;
}

/* Ask an object and those above it, up to its device. */
static int
path_has_iothread (struct qmp *qmp, const char *path, bool *ret)
{
  CLEANUP_FREE char *p = strdup (path);
  const char *machine = "/machine/";
  char *slash;

  if (!p)
    return out_of_memory (qmp);
  while (!*ret && strncmp (p, machine, strlen (machine)) == 0 &&
         strchr (p + strlen (machine), '/')) {
    if (object_has_iothread (qmp, p, ret) == -1)
      return -1;
    slash = strrchr (p, '/');
    *slash = '\0';
  }
  return 0;
}

/* Of the device itself, or of the controller whose bus it is on. */
static int
read_iothread (struct qmp *qmp, const char *qdev, bool *ret)
{
  CLEANUP_FREE char *path = NULL;
  CLEANUP_JSON json_t *bus = NULL;
  const char *refusal = NULL;

  if (asprintf (&path, "%s%s", qdev[0] == '/' ? "" : PERIPHERAL, qdev) == -1) {
    path = NULL;
    return out_of_memory (qmp);
  }
  if (path_has_iothread (qmp, path, ret) == -1)
    return -1;
  if (qmp_try (qmp, "qom-get",
               json_pack ("{ss, ss}", "path", path, "property", "parent_bus"),
               QMP_TIMEOUT_MS, &bus, &refusal) == -1 && !refusal)
    return -1;
  if (json_is_string (bus) &&
      path_has_iothread (qmp, json_string_value (bus), ret) == -1)
    return -1;
  return 0;
}

/* /machine/peripheral/ID/virtio-backend and the like: the user's ID. */
static char *
device_name (const char *qdev)
{
  const char *id = qdev + strlen (PERIPHERAL);

  if (strncmp (qdev, PERIPHERAL, strlen (PERIPHERAL)) != 0)
    return strdup (qdev);
  return strndup (id, strcspn (id, "/"));
}

static int
read_device (struct qmp *qmp, const struct graph *g, const json_t *block,
             struct disk *d)
{
  const char *qdev = json_get_string (block, "qdev");
  const char *backend = json_get_string (block, "device");
  const json_t *inserted = json_object_get (block, "inserted");
  const char *top = json_get_string (inserted, "node-name");

  d->device = device_name (qdev);
  d->backend = strdup (backend ? backend : "");
  if (!d->device || !d->backend)
    return out_of_memory (qmp);
  if (top) {
    if (read_nodes (qmp, g, top, d) == -1)
      return -1;
  }
  else {
    d->node = strdup ("");
    d->driver = strdup ("");
    if (!d->node || !d->driver)
      return out_of_memory (qmp);
    judge (d, false);
  }
  return read_iothread (qmp, qdev, &d->iothread);
}

static int
list_devices (struct qmp *qmp, const struct graph *g, disks *ret)
{
  CLEANUP_JSON json_t *blocks = NULL;
  json_t *block;
  size_t i;

  if (qmp_execute (qmp, "query-block", NULL, &blocks) == -1)
    return -1;
  json_array_foreach (blocks, i, block) {
    struct disk d = { 0 };

    /* A drive that no device has is no disk of the machine. */
    if (!json_get_string (block, "qdev"))
      continue;
    if (read_device (qmp, g, block, &d) == -1 ||
        (disks_append (ret, d) == -1 && out_of_memory (qmp))) {
      disk_free (&d);
      return -1;
    }
  }
  return 0;
}

static int
list_roots (struct qmp *qmp, const struct graph *g, disks *ret)
{
  /* QEMU tells the newest first. */
  for (size_t i = json_array_size (g->nodes); i-- > 0; ) {
    json_t *node = json_array_get (g->nodes, i);
    const char *name = json_get_string (node, "node-name");
    struct disk d = { 0 };

    if (!name || block_is_our_scratch (name) ||
        graph_has_parent_node (g, name))
      continue;
    d.device = strdup ("");
    d.backend = strdup ("");
    if ((!d.device || !d.backend) && out_of_memory (qmp)) {
      disk_free (&d);
      return -1;
    }
    if (read_nodes (qmp, g, name, &d) == -1 ||
        (disks_append (ret, d) == -1 && out_of_memory (qmp))) {
      disk_free (&d);
      return -1;
    }
  }
  return 0;
}

int
disks_is_storage_daemon (struct qmp *qmp, bool *ret)
{
  CLEANUP_JSON json_t *commands = NULL;
  json_t *command;
  size_t i;

  if (qmp_execute (qmp, "query-commands", NULL, &commands) == -1)
    return -1;
  json_array_foreach (commands, i, command) {
    const char *name = json_get_string (command, "name");

    if (name && strcmp (name, "query-status") == 0) {
      *ret = false;
      return 0;
    }
  }
  *ret = true;
  return 0;
}

int
disks_list (struct qmp *qmp, disks *ret)
{
  struct graph g = { NULL, NULL };
  bool storage_daemon;
  int r = -1;

  if (disks_is_storage_daemon (qmp, &storage_daemon) == -1 ||
      graph_read (qmp, &g) == -1)
    return -1;
  r = storage_daemon ? list_roots (qmp, &g, ret)
    : list_devices (qmp, &g, ret);
  graph_free (&g);
  return r;
}

int
disk_refresh_bitmaps (struct qmp *qmp, struct disk *disk)
{
  CLEANUP_JSON json_t *nodes = NULL;
  struct graph g = { NULL, NULL };
  bitmaps fresh = { 0 };
  json_t *info;

  if (qmp_execute (qmp, "query-named-block-nodes",
                   json_pack ("{sb}", "flat", 1), &nodes) == -1)
    return -1;
  g.nodes = nodes;
  info = graph_node (&g, disk->node);
  if (!info) {
    log_error ("%s: node %s is gone", qmp_name (qmp), disk->node);
    errno = ENOENT;
    return -1;
  }
  if (read_bitmaps (qmp, disk->node, info, &fresh) == -1) {
    bitmaps_free (&fresh);
    return -1;
  }
  bitmaps_free (&disk->bitmaps);
  disk->bitmaps = fresh;
  return 0;
}

const struct bitmap *
bitmaps_find (const bitmaps *v, const char *name)
{
  for (size_t i = 0; i < v->len; i++)
    if (strcmp (v->ptr[i].name, name) == 0)
      return &v->ptr[i];
  return NULL;
}

const struct bitmap *
disk_find_bitmap (const struct disk *disk, const char *name)
{
  return bitmaps_find (&disk->bitmaps, name);
}

struct disk *
disks_find (const disks *v, const char *name)
{
  if (name[0] == '\0')
    return NULL;
  for (size_t i = 0; i < v->len; i++)
    if (strcmp (v->ptr[i].device, name) == 0 ||
        strcmp (v->ptr[i].node, name) == 0 ||
        strcmp (v->ptr[i].backend, name) == 0)
      return &v->ptr[i];
  return NULL;
}

const char *
disk_default_name (const struct disk *disk)
{
  if (disk->device[0] != '\0' && disk->device[0] != '/')
    return disk->device;
  if (disk->node[0] == '#' && disk->backend[0] != '\0')
    return disk->backend;
  return disk->node;
}

bool
disk_can_persist (const struct disk *disk)
{
  return strcmp (disk->driver, "qcow2") == 0 && !disk->read_only &&
    disk->compat && strcmp (disk->compat, "0.10") != 0;
}
