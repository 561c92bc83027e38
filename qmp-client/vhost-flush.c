/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A virtio-blk driver that can do one thing: flush.
 *
 * A storage daemon has no command that flushes a node, and its NBD server
 * belongs to its user (there is one for each process, and nobody can ask
 * where it listens).  A vhost-user-blk export has a socket of its own.  So
 * this is the least of that protocol: one memory region, one queue of one
 * request, no optional features.
 *
 * The region, one page: descriptors, available ring, used ring, the
 * request's header and status, at the offsets below.  QEMU reads and
 * writes it as well, so the indices are read and written atomically.
 */
#include <config.h>

#include <errno.h>
#include <poll.h>
#include <linux/vhost_types.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "log.h"
#include "process.h"
#include "vhost-flush.h"

#define REGION_BYTES 4096
#define GUEST_BASE UINT64_C (0x100000) /* where the region is "physically" */
#define RING_ENTRIES 4
#define DESC_AT 0
#define AVAIL_AT 1024
#define USED_AT 2048
#define HEADER_AT 3072
#define STATUS_AT 3104

/* docs/interop/vhost-user.rst of QEMU */
enum {
  GET_FEATURES = 1, SET_FEATURES = 2, SET_OWNER = 3, SET_MEM_TABLE = 5,
  SET_VRING_NUM = 8, SET_VRING_ADDR = 9, SET_VRING_BASE = 10,
  SET_VRING_KICK = 12, SET_VRING_CALL = 13
};
#define MESSAGE_VERSION 1

struct memory_table {
  uint32_t nr_regions, padding;
  uint64_t guest_address, bytes, user_address, mmap_offset;
};

struct message {
  uint32_t request, flags, bytes;
  union {
    uint64_t u64;
    struct vhost_vring_state state;
    struct vhost_vring_addr addr;
    struct memory_table memory;
  } body;
} __attribute__ ((packed));

#define HEADER_BYTES offsetof (struct message, body)

/* Send a message, with a descriptor unless fd is -1. */
static int
send_message (int sock, uint32_t request, const void *body, size_t bytes,
              int fd)
{
  struct message m = { request, MESSAGE_VERSION, bytes, { 0 } };
  struct iovec iov = { &m, HEADER_BYTES + bytes };
  union {
    char buf[CMSG_SPACE (sizeof (int))];
    struct cmsghdr align;
  } control = { { 0 } };
  struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
  ssize_t r;

  if (bytes > 0)
    memcpy (&m.body, body, bytes);
  if (fd != -1) {
    struct cmsghdr *c = &control.align;

    msg.msg_control = control.buf;
    msg.msg_controllen = sizeof control.buf;
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN (sizeof (int));
    memcpy (CMSG_DATA (c), &fd, sizeof fd);
  }
  do
    r = sendmsg (sock, &msg, MSG_NOSIGNAL);
  while (r == -1 && errno == EINTR);
  if (r >= 0 && (size_t) r != iov.iov_len)
    errno = EPROTO;
  return r == (ssize_t) iov.iov_len ? 0 : -1;
}

static int
send_u64 (int sock, uint32_t request, uint64_t value, int fd)
{
  return send_message (sock, request, &value, sizeof value, fd);
}

static int
send_state (int sock, uint32_t request, unsigned num)
{
  struct vhost_vring_state s = { .index = 0, .num = num };

  return send_message (sock, request, &s, sizeof s, -1);
}

/* Wait until fd is readable; -1 with errno set. */
static int
wait_readable (int fd, int64_t deadline)
{
  struct pollfd pfd = { .fd = fd, .events = POLLIN };
  int r;

  do
    r = poll (&pfd, 1, clock_left_ms (deadline));
  while (r == -1 && errno == EINTR);
  if (r == 0)
    errno = ETIMEDOUT;
  return r == 1 ? 0 : -1;
}

static int
get_features (int sock, int64_t deadline, uint64_t *ret)
{
  struct message m;
  size_t want = HEADER_BYTES + sizeof m.body.u64;
  ssize_t r;

  if (send_message (sock, GET_FEATURES, NULL, 0, -1) == -1 ||
      wait_readable (sock, deadline) == -1)
    return -1;
  r = recv (sock, &m, want, MSG_WAITALL);
  if (r == -1)
    return -1;
  if ((size_t) r != want || m.request != GET_FEATURES ||
      m.bytes != sizeof m.body.u64) {
    errno = EPROTO;
    return -1;
  }
  *ret = m.body.u64;
  return 0;
}

/* The request, in the region. */
static void
put_request (unsigned char *region)
{
  struct vring_desc *desc = (void *) (region + DESC_AT);
  struct vring_avail *avail = (void *) (region + AVAIL_AT);
  struct virtio_blk_outhdr *header = (void *) (region + HEADER_AT);

  header->type = VIRTIO_BLK_T_FLUSH;
  region[STATUS_AT] = 0xff;
  desc[0] = (struct vring_desc) {
    .addr = GUEST_BASE + HEADER_AT, .len = sizeof *header,
    .flags = VRING_DESC_F_NEXT, .next = 1
  };
  desc[1] = (struct vring_desc) {
    .addr = GUEST_BASE + STATUS_AT, .len = 1, .flags = VRING_DESC_F_WRITE
  };
  avail->ring[0] = 0;
  __atomic_store_n (&avail->idx, 1, __ATOMIC_SEQ_CST);
}

static int
flush_through (int sock, unsigned char *region, int memory, int kick,
               int call, int64_t deadline)
{
  struct vring_used *used = (void *) (region + USED_AT);
  uint64_t base = (uintptr_t) region, features, one = 1;
  struct memory_table table = {
    .nr_regions = 1, .guest_address = GUEST_BASE, .bytes = REGION_BYTES,
    .user_address = base
  };
  struct vhost_vring_addr addr = {
    .desc_user_addr = base + DESC_AT, .avail_user_addr = base + AVAIL_AT,
    .used_user_addr = base + USED_AT
  };
  const uint64_t need = UINT64_C (1) << VIRTIO_F_VERSION_1 |
    UINT64_C (1) << VIRTIO_BLK_F_FLUSH;

  if (get_features (sock, deadline, &features) == -1)
    return -1;
  if ((features & need) != need) {
    errno = EOPNOTSUPP;
    return -1;
  }
  put_request (region);
  if (send_message (sock, SET_OWNER, NULL, 0, -1) == -1 ||
      send_u64 (sock, SET_FEATURES, need, -1) == -1 ||
      send_message (sock, SET_MEM_TABLE, &table, sizeof table,
                    memory) == -1 ||
      send_state (sock, SET_VRING_NUM, RING_ENTRIES) == -1 ||
      send_state (sock, SET_VRING_BASE, 0) == -1 ||
      send_message (sock, SET_VRING_ADDR, &addr, sizeof addr, -1) == -1 ||
      send_u64 (sock, SET_VRING_CALL, 0, call) == -1 ||
      send_u64 (sock, SET_VRING_KICK, 0, kick) == -1 ||
      write (kick, &one, sizeof one) == -1)
    return -1;
  while (__atomic_load_n (&used->idx, __ATOMIC_SEQ_CST) == 0) {
    struct pollfd fds[2] = { { .fd = call, .events = POLLIN },
                             { .fd = sock, .events = POLLIN } };
    uint64_t n;
    int r = poll (fds, 2, clock_left_ms (deadline));

    if (r == 0)
      errno = ETIMEDOUT;
    if (r == 0 || (r == -1 && errno != EINTR))
      return -1;
    if (fds[1].revents != 0) {  /* it never sends anything unasked */
      errno = EPIPE;
      return -1;
    }
    if (fds[0].revents != 0 && read (call, &n, sizeof n) == -1 &&
        errno != EAGAIN)
      return -1;
  }
  if (region[STATUS_AT] != VIRTIO_BLK_S_OK) {
    errno = EIO;
    return -1;
  }
  return 0;
}

int
vhost_flush (const char *socket_path, int timeout_ms)
{
  int64_t deadline = clock_ms () + timeout_ms;
  CLEANUP_FD int sock = socket_connect (socket_path);
  CLEANUP_FD int memory = memfd_create ("nbdsync-flush", MFD_CLOEXEC);
  CLEANUP_FD int kick = eventfd (0, EFD_CLOEXEC);
  CLEANUP_FD int call = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  unsigned char *region = MAP_FAILED;
  int r = -1;

  if (sock != -1 && memory != -1 && kick != -1 && call != -1 &&
      ftruncate (memory, REGION_BYTES) == 0)
    region = mmap (NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                   memory, 0);
  if (region != MAP_FAILED)
    r = flush_through (sock, region, memory, kick, call, deadline);
  if (r == -1)
    log_error ("%s: flush through vhost-user-blk: %m", socket_path);
  if (region != MAP_FAILED)
    munmap (region, REGION_BYTES);
  return r;
}
