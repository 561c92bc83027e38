/* SPDX-License-Identifier: BSD-3-Clause
 *
 * test-delta-recv-client URI COMMAND...: an NBD client for tests, one
 * connection.  Commands, each an argument:
 *
 *   slot:FILE:N[:FROM[:BYTES]]  write slot N of a wire image, or a part
 *   wire:FILE               write all slots of one
 *   data:OFFSET:BYTES       write 0xaa
 *   zero:OFFSET:BYTES       write zeroes
 *   read:OFFSET:BYTES
 *   flush
 *   wait:FILE               until that file exists
 *   touch:FILE              make it
 *
 * With '!' in front, a command must fail with EIO ('!!': ENOSPC).  Exits
 * with 1 and a message at the first command that does not do as it should.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libnbd.h>

#include "frame.h"

#define REQUEST_BYTES (256 << 10)

static unsigned char buf[FRAME_MAX_BYTES];

static int
write_slot (struct nbd_handle *nbd, char *args)
{
  char *file = strtok (args, ":"), *n = strtok (NULL, ":");
  char *from = strtok (NULL, ":"), *bytes = strtok (NULL, ":");
  uint64_t at = strtoull (n, NULL, 0) * SLOT_BYTES;
  size_t len = FRAME_MAX_BYTES;
  int fd = open (file, O_RDONLY);
  ssize_t r;

  if (from)
    at += strtoull (from, NULL, 0);
  if (bytes)
    len = strtoull (bytes, NULL, 0);
  else if (from)
    len -= strtoull (from, NULL, 0);
  r = pread (fd, buf, len, at);
  if (fd == -1 || r == -1) {
    perror (file);
    exit (1);
  }
  close (fd);
  /* Not the zeroes at the end. */
  while (!bytes && r > 1 && buf[r - 1] == 0)
    r--;
  for (ssize_t done = 0; done < r; done += REQUEST_BYTES)
    if (nbd_pwrite (nbd, buf + done,
                    r - done < REQUEST_BYTES ? r - done : REQUEST_BYTES,
                    at + done, 0) == -1)
      return -1;
  return 0;
}

static int
write_wire (struct nbd_handle *nbd, const char *file)
{
  struct stat st;
  char args[4096];

  if (stat (file, &st) == -1) {
    perror (file);
    exit (1);
  }
  for (uint64_t n = 0; n < st.st_size / SLOT_BYTES; n++) {
    snprintf (args, sizeof args, "%s:%d", file, (int) n);
    if (write_slot (nbd, args) == -1)
      return -1;
  }
  return 0;
}

static int
run (struct nbd_handle *nbd, char *command)
{
  char *args = strchr (command, ':');
  uint64_t offset, n = 0;

  if (args)
    *args++ = '\0';
  if (strcmp (command, "flush") == 0)
    return nbd_flush (nbd, 0);
  if (strcmp (command, "slot") == 0)
    return write_slot (nbd, args);
  if (strcmp (command, "wire") == 0)
    return write_wire (nbd, args);
  if (strcmp (command, "wait") == 0) {
    while (access (args, F_OK) == -1)
      usleep (5000);
    return 0;
  }
  if (strcmp (command, "touch") == 0) {
    int fd = open (args, O_WRONLY | O_CREAT, 0600);

    return fd == -1 ? -1 : close (fd);
  }
  offset = strtoull (args, &args, 0);
  if (*args == ':')
    n = strtoull (args + 1, NULL, 0);
  if (strcmp (command, "read") == 0)
    return nbd_pread (nbd, buf, n, offset, 0);
  if (strcmp (command, "zero") == 0)
    return nbd_zero (nbd, n, offset, 0);
  if (strcmp (command, "data") == 0) {
    memset (buf, 0xaa, n);
    return nbd_pwrite (nbd, buf, n, offset, 0);
  }
  fprintf (stderr, "unknown command %s\n", command);
  exit (2);
}

int
main (int argc, char *argv[])
{
  struct nbd_handle *nbd = nbd_create ();

  nbd_set_strict_mode (nbd, 0);
  if (nbd_connect_uri (nbd, argv[1]) == -1) {
    fprintf (stderr, "%s\n", nbd_get_error ());
    return 1;
  }
  for (int i = 2; i < argc; i++) {
    char *command = argv[i];
    int want = 0, r;

    for (; *command == '!'; command++)
      want = want == 0 ? EIO : ENOSPC;
    r = run (nbd, command);
    if (r == -1 ? nbd_get_errno () != want : want != 0) {
      fprintf (stderr, "command %d (%s): %s\n", i - 1, command,
               r == -1 ? nbd_get_error () : "succeeded");
      nbd_close (nbd);
      return 1;
    }
  }
  nbd_shutdown (nbd, 0);
  nbd_close (nbd);
  return 0;
}
