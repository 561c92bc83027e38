/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Child processes and the sockets they serve.  No state but the children
 * themselves, each owned by the struct process of whoever started it.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "fault.h"
#include "log.h"
#include "process.h"

#define OUTPUT_MAX_BYTES (64 << 20)
#define LISTEN_FD 3             /* SD_LISTEN_FDS_START */

/* In the child, between fork and exec. */
static void __attribute__ ((noreturn))
child (const struct process_spec *spec, pid_t parent, int report)
{
  int fds[3] = { spec->in, spec->out, spec->err };
  CLEANUP_FREE char *pid = NULL;
  int null = open ("/dev/null", O_RDWR | O_CLOEXEC), error;
  struct rlimit limit;
  sigset_t none;

  sigemptyset (&none);
  sigprocmask (SIG_SETMASK, &none, NULL);
  for (int sig = 1; sig < NSIG; sig++)
    signal (sig, SIG_DFL);
  if (prctl (PR_SET_PDEATHSIG, SIGTERM) == -1 || getppid () != parent)
    _exit (127);

  /* A storage daemon opens a descriptor for each layer of an image. */
  if (getrlimit (RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit (RLIMIT_NOFILE, &limit);
  }

  /* Move what we pass out of the way of 0 to 3 first. */
  report = fcntl (report, F_DUPFD_CLOEXEC, 10);
  for (int i = 0; i < 3; i++) {
    if (fds[i] == 0)
      fds[i] = i == 2 ? 2 : null;
    fds[i] = fcntl (fds[i], F_DUPFD_CLOEXEC, 10);
  }
  int listen_fd = spec->listen_fd;
  if (listen_fd != 0)
    listen_fd = fcntl (listen_fd, F_DUPFD_CLOEXEC, 10);
  for (const int *fd = spec->keep; fd && *fd != 0; fd++)
    fcntl (*fd, F_SETFD, 0);
  for (int i = 0; i < 3; i++)
    dup2 (fds[i], i);
  if (listen_fd != 0) {
    dup2 (listen_fd, LISTEN_FD);
    if (asprintf (&pid, "%d", (int) getpid ()) == -1)
      _exit (127);
    setenv ("LISTEN_FDS", "1", 1);
    setenv ("LISTEN_PID", pid, 1);
    unsetenv ("LISTEN_FDNAMES");
  }
  execvp (spec->argv[0], (char *const *) spec->argv);
  error = errno;
  if (write (report, &error, sizeof error) != sizeof error)
    _exit (126);
  _exit (127);
}

int
process_start (struct process *p, const struct process_spec *spec)
{
  const char *slash = strrchr (spec->argv[0], '/');
  const char *name = slash ? slash + 1 : spec->argv[0];
  pid_t parent = getpid (), pid;
  int fds[2], error;
  ssize_t r;

  FAULT_POINT_OF ("process-start", name);
  if (pipe2 (fds, O_CLOEXEC) == -1) {
    log_error ("%s: pipe2: %m", name);
    return -1;
  }
  CLEANUP_FD int readable = fds[0], writable = fds[1];
  pid = fork ();
  if (pid == 0)
    child (spec, parent, writable);
  if (pid == -1) {
    log_error ("%s: fork: %m", name);
    return -1;
  }
  close (TAKE_FD (writable));
  do
    r = read (readable, &error, sizeof error);
  while (r == -1 && errno == EINTR);
  if (r == sizeof error) {
    waitpid (pid, NULL, 0);
    errno = error;
    log_error ("%s: cannot run: %m", name);
    return -1;
  }
  *p = (struct process) { .pid = pid };
  snprintf (p->name, sizeof p->name, "%s", name);
  FAULT_POINT_OF ("process-started", name);
  return 0;
}

int
process_wait (struct process *p, int timeout_ms, int *ret_status)
{
  int64_t deadline = clock_ms () + timeout_ms;
  CLEANUP_FD int pidfd = -1;
  int status;

  if (p->pid == 0) {
    *ret_status = 0;
    return 1;
  }
  if (timeout_ms >= 0) {
    pidfd = syscall (SYS_pidfd_open, p->pid, 0);
    for (;;) {
      struct pollfd pfd = { .fd = pidfd, .events = POLLIN };
      int64_t left = deadline - clock_ms ();
      int r = poll (&pfd, 1, left > 0 ? left : 0);

      if (r == 1)
        break;
      if (r == 0 || errno != EINTR)
        return 0;
    }
  }
  while (waitpid (p->pid, &status, 0) == -1)
    if (errno != EINTR) {       /* somebody else reaped it */
      status = 0;
      break;
    }
  p->pid = 0;
  *ret_status = status;
  return 1;
}

int
process_stop (struct process *p, int timeout_ms)
{
  int status = 0;

  if (p->pid == 0)
    return 0;
  FAULT_POINT_OF ("process-stop", p->name);
  kill (p->pid, SIGTERM);
  if (process_wait (p, timeout_ms, &status)) {
    FAULT_POINT_OF ("process-stopped", p->name);
    return status;
  }
  kill (p->pid, SIGKILL);
  process_wait (p, -1, &status);
  return status;
}

const char *
process_status_text (int status)
{
  static __thread char text[64];

  if (WIFSIGNALED (status))
    snprintf (text, sizeof text, "killed by signal %d", WTERMSIG (status));
  else
    snprintf (text, sizeof text, "exit status %d", WEXITSTATUS (status));
  return text;
}

struct output {
  char *text;
  size_t len, cap, max;
};

/* Read what is there.  1 if more may come, 0 at the end, -1 on error. */
static int
output_read (struct output *o, int fd)
{
  void *p = o->text;
  ssize_t r;

  if (o->len >= o->max) {
    errno = EFBIG;
    return -1;
  }
  if (vector_reserve (&p, &o->cap, o->len + 4097, 1) == -1)
    return -1;
  o->text = p;
  r = read (fd, o->text + o->len, 4096);
  if (r == -1)
    return errno == EINTR ? 1 : -1;
  o->len += r;
  o->text[o->len] = '\0';
  return r > 0;
}

/* The last line that says something, in place. */
static const char *
last_line (struct output *o)
{
  while (o->len > 0 && strchr ("\r\n ", o->text[o->len - 1]))
    o->text[--o->len] = '\0';
  if (o->len == 0)
    return NULL;
  const char *nl = strrchr (o->text, '\n');
  return nl ? nl + 1 : o->text;
}

static int
run_and_read (const char *const *argv, int timeout_ms, struct output *out,
              struct output *err)
{
  int64_t deadline = clock_ms () + timeout_ms;
  int out_pipe[2], err_pipe[2], status;
  struct process p;

  if (pipe2 (out_pipe, O_CLOEXEC) == -1) {
    log_error ("%s: pipe2: %m", argv[0]);
    return -1;
  }
  CLEANUP_FD int out_r = out_pipe[0], out_w = out_pipe[1];
  if (pipe2 (err_pipe, O_CLOEXEC) == -1) {
    log_error ("%s: pipe2: %m", argv[0]);
    return -1;
  }
  CLEANUP_FD int err_r = err_pipe[0], err_w = err_pipe[1];

  if (process_start (&p, &(struct process_spec) {
        .argv = argv, .out = out_w, .err = err_w }) == -1)
    return -1;
  close (TAKE_FD (out_w));
  close (TAKE_FD (err_w));

  struct pollfd fds[2] = { { .fd = out_r, .events = POLLIN },
                           { .fd = err_r, .events = POLLIN } };
  struct output *to[2] = { out, err };
  while (fds[0].fd != -1 || fds[1].fd != -1) {
    int64_t left = deadline - clock_ms ();
    int r = poll (fds, 2, left > 0 ? left : 0);

    if (r == -1 && errno == EINTR)
      continue;
    if (r <= 0) {
      process_stop (&p, 0);
      log_error ("%s: no end within %d s", p.name, timeout_ms / 1000);
      return -1;
    }
    for (int i = 0; i < 2; i++) {
      if (fds[i].fd == -1 || fds[i].revents == 0)
        continue;
      r = output_read (to[i], fds[i].fd);
      if (r == -1) {
        log_error ("%s: reading its output: %m", p.name);
        process_stop (&p, 0);
        return -1;
      }
      if (r == 0)
        fds[i].fd = -1;
    }
  }
  process_wait (&p, -1, &status);
  if (status != 0) {
    const char *line = last_line (err);
    size_t n = strlen (p.name);

    if (line && strncmp (line, p.name, n) == 0 && line[n] == ':')
      line += n + 1 + (line[n + 1] == ' ');
    log_error ("%s: %s", p.name, line ? line : process_status_text (status));
    return -1;
  }
  return 0;
}

int
process_run (const char *const *argv, int timeout_ms, char **ret_out)
{
  struct output out = { .max = OUTPUT_MAX_BYTES };
  struct output err = { .max = OUTPUT_MAX_BYTES };
  int r = run_and_read (argv, timeout_ms, &out, &err);

  free (err.text);
  if (r == 0 && ret_out) {
    *ret_out = out.text ? out.text : strdup ("");
    if (*ret_out)
      return 0;
    log_error ("%s: %m", argv[0]);
    return -1;
  }
  free (out.text);
  return r;
}

static int
socket_address (const char *path, struct sockaddr_un *ret)
{
  if (strlen (path) >= sizeof ret->sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  *ret = (struct sockaddr_un) { .sun_family = AF_UNIX };
  strcpy (ret->sun_path, path);
  return 0;
}

int
socket_listen (const char *path)
{
  struct sockaddr_un addr;
  CLEANUP_FD int fd = -1;

  if (socket_address (path, &addr) == -1) {
    log_error ("%s: longer than a socket's path may be", path);
    return -1;
  }
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  /* The mode of the descriptor is the mode of the file made by bind. */
  if (fd == -1 || fchmod (fd, 0600) == -1 ||
      bind (fd, (struct sockaddr *) &addr, sizeof addr) == -1 ||
      listen (fd, SOMAXCONN) == -1) {
    log_error ("%s: cannot listen: %m", path);
    return -1;
  }
  return TAKE_FD (fd);
}

int
socket_connect (const char *path)
{
  struct sockaddr_un addr;
  CLEANUP_FD int fd = -1;

  if (socket_address (path, &addr) == -1)
    return -1;
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd == -1)
    return -1;
  while (connect (fd, (struct sockaddr *) &addr, sizeof addr) == -1)
    if (errno != EINTR)
      return -1;
  return TAKE_FD (fd);
}
