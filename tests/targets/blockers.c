// Threads that block in every kind of waiting call. Each checks the result of its call: a stop of
// the process must cause neither EINTR nor a wrong result. A line on stdin ends it, with "ok" and
// status 0, or with what went wrong and status 1.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int stopping;
static volatile long failures;
static int stop_word;
static int quiet_pipe[2];

static void complain(const char* what, long result) {
  __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
  printf("%s: result %ld, %s\n", what, result, strerror(errno));
  fflush(stdout);
}

static void check_timeout(const char* what, long result, int timed_out) {
  if (!timed_out) complain(what, result);
}

static const struct timespec kShort = {0, 30000000};

static void* in_futex(void* arg) {
  (void)arg;
  while (!stopping) {
    long r = syscall(SYS_futex, &stop_word, FUTEX_WAIT_PRIVATE, 0, &kShort, 0, 0);
    check_timeout("futex", r, (r == -1 && (errno == ETIMEDOUT || errno == EAGAIN)) || stopping);
  }
  return 0;
}

static void* in_futex_forever(void* arg) {
  (void)arg;
  long r = syscall(SYS_futex, &stop_word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
  if (r == -1 && errno == EAGAIN) r = 0;
  if (r != 0) complain("futex without timeout", r);
  return 0;
}

static void* in_epoll(void* arg) {
  (void)arg;
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(epoll, EPOLL_CTL_ADD, quiet_pipe[0], &event);
  while (!stopping) {
    long r = epoll_wait(epoll, &event, 1, 30);
    check_timeout("epoll_wait", r, r == 0 || stopping);
  }
  return 0;
}

static void* in_epoll_forever(void* arg) {
  (void)arg;
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(epoll, EPOLL_CTL_ADD, quiet_pipe[0], &event);
  long r = epoll_wait(epoll, &event, 1, -1);
  if (r != 1 || !stopping) complain("epoll_wait without timeout", r);
  return 0;
}

static void* in_nanosleep(void* arg) {
  (void)arg;
  while (!stopping) {
    struct timespec before, after, remaining = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &before);
    long r = nanosleep(&kShort, &remaining);
    clock_gettime(CLOCK_MONOTONIC, &after);
    long ns = (after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec;
    check_timeout("nanosleep", r, r == 0 && ns >= kShort.tv_nsec);
  }
  return 0;
}

static void* in_read(void* arg) {
  (void)arg;
  char byte;
  long r = read(quiet_pipe[0], &byte, 0 + 1);
  if (r != 1 || !stopping) complain("read", r);
  return 0;
}

static void* in_poll(void* arg) {
  (void)arg;
  while (!stopping) {
    struct pollfd fd = {quiet_pipe[0], POLLIN, 0};
    long r = poll(&fd, 1, 30);
    check_timeout("poll", r, r == 0 || stopping);
  }
  return 0;
}

static void* in_pselect(void* arg) {
  (void)arg;
  while (!stopping) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(quiet_pipe[0], &set);
    long r = pselect(quiet_pipe[0] + 1, &set, 0, 0, &kShort, 0);
    check_timeout("pselect", r, r == 0 || stopping);
  }
  return 0;
}

static void* in_sigtimedwait(void* arg) {
  (void)arg;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, 0);
  while (!stopping) {
    long r = sigtimedwait(&set, 0, &kShort);
    check_timeout("sigtimedwait", r, r == -1 && errno == EAGAIN);
  }
  return 0;
}

static void* in_semtimedop(void* arg) {
  int semaphore = *(int*)arg;
  while (!stopping) {
    struct sembuf take = {0, -1, 0};
    long r = semtimedop(semaphore, &take, 1, &kShort);
    check_timeout("semtimedop", r, r == -1 && errno == EAGAIN);
  }
  return 0;
}

static void* in_recv(void* arg) {
  (void)arg;
  int ends[2];
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  struct timeval timeout = {0, 30000};
  setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  while (!stopping) {
    char byte;
    long r = recv(ends[0], &byte, 1, 0);
    check_timeout("recv with SO_RCVTIMEO", r, r == -1 && errno == EAGAIN);
  }
  return 0;
}

int main(int argc, char** argv) {
  int copies = argc > 1 ? atoi(argv[1]) : 6;
  void* (*kinds[])(void*) = {in_futex,   in_futex_forever, in_epoll,    in_epoll_forever,
                             in_nanosleep, in_read,        in_poll,     in_pselect,
                             in_sigtimedwait, in_semtimedop, in_recv};
  enum { kKinds = sizeof kinds / sizeof kinds[0] };
  static pthread_t ids[64 * kKinds];
  int n = 0, semaphore = semget(IPC_PRIVATE, 1, 0600 | IPC_CREAT);
  if (pipe(quiet_pipe) != 0 || semaphore < 0) return 2;
  for (int copy = 0; copy < copies && copy < 64; copy++)
    for (int kind = 0; kind < kKinds; kind++)
      pthread_create(&ids[n++], 0, kinds[kind], &semaphore);
  printf("ready %d threads\n", n + 1);
  fflush(stdout);
  char line[16];
  if (!fgets(line, sizeof line, stdin)) complain("fgets", 0);
  stopping = 1;
  __atomic_store_n(&stop_word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &stop_word, FUTEX_WAKE_PRIVATE, 1 << 30, 0, 0, 0);
  // One byte for each thread that reads; threads that poll leave it there.
  char bytes[64 * 2] = {0};
  if (write(quiet_pipe[1], bytes, sizeof bytes) != sizeof bytes) return 2;
  for (int i = 0; i < n; i++) pthread_join(ids[i], 0);
  semctl(semaphore, 0, IPC_RMID);
  if (!failures) puts("ok");
  return failures != 0;
}
