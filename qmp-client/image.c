/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What qemu-img tells of image files.  No state.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cleanup.h"
#include "image.h"
#include "json.h"
#include "log.h"
#include "process.h"

#define INFO_TIMEOUT_MS 30000

json_t *
image_chain (const char *file, const char *format)
{
  /* The whole path, so that nothing in it is taken for a protocol. */
  CLEANUP_FREE char *path = realpath (file, NULL);
  CLEANUP_FREE char *text = NULL;
  const char *argv[12] = { "qemu-img", "info", "-U", "--backing-chain",
                           "--output=json" };
  json_error_t error;
  json_t *chain;
  size_t n = 5;

  if (!path) {
    log_error ("%s: %m", file);
    return NULL;
  }
  if (format) {
    argv[n++] = "-f";
    argv[n++] = format;
  }
  argv[n++] = "--";
  argv[n++] = path;
  if (process_run (argv, INFO_TIMEOUT_MS, &text) == -1)
    return NULL;
  chain = json_loads (text, JSON_REJECT_DUPLICATES, &error);
  if (!json_is_array (chain) || json_array_size (chain) == 0) {
    json_decref (chain);
    log_error ("%s: qemu-img info: not what it should be", file);
    errno = EBADMSG;
    return NULL;
  }
  return chain;
}

const char *
image_file_driver (const char *file)
{
  struct stat st;

  if (stat (file, &st) == -1) {
    log_error ("%s: %m", file);
    return NULL;
  }
  return S_ISBLK (st.st_mode) ? "host_device" : "file";
}

bool
image_can_direct (const char *file)
{
  CLEANUP_FD int fd = open (file, O_RDONLY | O_DIRECT | O_CLOEXEC);

  return fd != -1;
}
