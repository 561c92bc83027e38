/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Map files.  State: a node nbdsync-<tag>-map while one is made.
 */
#include <config.h>

#include <errno.h>
#include <unistd.h>

#include "block.h"
#include "fault.h"
#include "log.h"
#include "map-file.h"
#include "spool.h"

int
map_take (struct qmp *qmp, const char *from_node, const char *bitmap,
          uint64_t size, uint64_t granularity, const char *path,
          const char *tag)
{
  char node[NODE_NAME_MAX];
  int r, saved;

  block_our_name (tag, BLOCK_MAP, node);
  if (block_node_remove (qmp, node) == -1)
    return -1;
  if (access (path, F_OK) == 0) {
    errno = EEXIST;
    log_error ("%s: %m", path);
    return -1;
  }
  if (block_node_create (qmp, node, path, size) == -1)
    return -1;
  FAULT_POINT ("map-node-created");
  r = block_map_merge (qmp, node, MAP_BITMAP, granularity, from_node,
                       bitmap);
  saved = errno;
  FAULT_POINT ("map-merged");
  /* The bits are in the file only when this has succeeded. */
  if (block_node_remove (qmp, node) == -1 && r == 0) {
    saved = errno;
    r = -1;
  }
  FAULT_POINT ("map-closed");
  if (r == -1)
    unlink (path);
  errno = saved;
  return r;
}
