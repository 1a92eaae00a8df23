// Runs spin() all the time. SIGUSR1 holds it: it prints "held", and reads a line from stdin before
// it goes on ("on"). At the end of its input, which it only notices then, it ends with status 0. As
// long as FIFO, its argument, is open for writing, another thread waits for its vfork child.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "noinline.h"

NOINLINE unsigned long spin(unsigned long x) {
  for (int i = 0; i < 1000; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  return x;
}

static void hold(int signal) {
  char line[16];
  (void)signal;
  if (write(1, "held\n", 5) != 5 || read(0, line, sizeof line) <= 0) _exit(0);
  if (write(1, "on\n", 3) != 3) _exit(1);
}

static void* wait_for_child(void* path) {
  const int fifo = open(path, O_RDONLY);
  char nothing;
  if (vfork() == 0) _exit(read(fifo, &nothing, 1) != 0);
  return 0;
}

int main(int argc, char** argv) {
  unsigned long x = 88172645463325252u, y = x;
  pthread_t waiter;
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &held, 0);  // in the other thread
  if (argc > 1 && pthread_create(&waiter, 0, wait_for_child, argv[1]) != 0) return 1;
  signal(SIGUSR1, hold);
  pthread_sigmask(SIG_UNBLOCK, &held, 0);
  if (write(1, "ready\n", 6) != 6) return 1;
  for (;;) {
    x = spin(x);
    for (int i = 0; i < 1000; i++) {
      y ^= y << 13;
      y ^= y >> 7;
      y ^= y << 17;
    }
    if (x != y) abort();
  }
}
