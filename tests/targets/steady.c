// Works all the time, on several threads, and checks everything: its results, those of its system
// calls, and the signal masks, which no other process may change. `steady [THREADS]`. Each line on
// stdin is answered once every thread has done at least two more rounds, with "ok", or with "WRONG"
// and what was wrong. Ends at the end of its input, with status 1 if anything was wrong. Allocates
// nothing, so that its mappings do not change.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "noinline.h"

enum { kMostThreads = 32 };

static volatile int stopping;
static const char* volatile wrong;
static volatile long rounds[kMostThreads];

NOINLINE long step(long x) {
  __asm__ volatile("" : "+r"(x));
  return x * 3 + 1;
}

NOINLINE long descend(long depth) {
  long below = depth > 0 ? descend(depth - 1) : 0;
  __asm__ volatile("" : "+r"(below));
  return below + 1;
}

NOINLINE double scale(double x) {
  __asm__ volatile("" : "+x"(x));
  return x * 0.5 + 1;
}

// In flight for most of the time.
NOINLINE int rest(void) {
  const struct timespec t = {0, 300000};
  return nanosleep(&t, 0);
}

NOINLINE long mask_now(void) {
  long mask = 0;
  if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, &mask, sizeof mask) != 0) return -1;
  return mask;
}

static void expect(int is_so, const char* what) {
  if (!is_so) wrong = what;
}

static void* work(void* arg) {
  const long number = (long)arg;
  // Each thread blocks different signals.
  sigset_t blocked;
  sigemptyset(&blocked);
  if (number % 2) sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_SETMASK, &blocked, 0);
  const long mask = mask_now();
  while (!stopping) {
    long sum = 0;
    for (long i = 0; i < 2000; i++) sum += step(i);
    expect(sum == 3 * (1999L * 2000 / 2) + 2000, "step");
    expect(descend(20) == 21, "descend");
    double x = 0;
    for (int i = 0; i < 200; i++) x = scale(x);
    expect(x == 2, "scale");
    expect(rest() == 0, "rest");
    expect(poll(0, 0, 1) == 0, "poll");
    expect(mask_now() == mask, "mask");
    ++rounds[number];
  }
  return 0;
}

static void wait_for_rounds(int threads) {
  long before[kMostThreads];
  for (int i = 0; i < threads; i++) before[i] = rounds[i];
  for (int i = 0; i < threads; i++)
    while (rounds[i] < before[i] + 2) usleep(200);
}

int main(int argc, char** argv) {
  static pthread_t ids[kMostThreads];
  static char buffer[512], line[64];
  int threads = argc > 1 ? atoi(argv[1]) : 4;
  if (threads < 1 || threads > kMostThreads) return 2;
  setvbuf(stdin, buffer, _IOFBF, sizeof buffer / 2);
  setvbuf(stdout, buffer + sizeof buffer / 2, _IOLBF, sizeof buffer / 2);
  for (long i = 0; i < threads; i++) pthread_create(&ids[i], 0, work, (void*)i);
  while (fgets(line, sizeof line, stdin)) {
    wait_for_rounds(threads);
    if (wrong)
      printf("WRONG %s\n", wrong);
    else
      puts("ok");
  }
  stopping = 1;
  for (int i = 0; i < threads; i++) pthread_join(ids[i], 0);
  return wrong != 0;
}
