// Threads that start, work, and end, all the time. SIGTERM ends it, with "ok" and status 0 if all
// of them had right results.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "noinline.h"

enum { kAtOnce = 16, kRounds = 200 };

static volatile sig_atomic_t stopping;
static long wrong;

static void stop(int signal) {
  (void)signal;
  stopping = 1;
}

NOINLINE long work(long x) {
  __asm__ volatile("" : "+r"(x));
  return x + 1;
}

static void* live(void* arg) {
  long x = (long)arg;
  for (int i = 0; i < kRounds; i++) x = work(x);
  if (x != (long)arg + kRounds) __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
  return 0;
}

int main(void) {
  signal(SIGTERM, stop);
  puts("ready");
  fflush(stdout);
  while (!stopping) {
    pthread_t ids[kAtOnce];
    for (long i = 0; i < kAtOnce; i++)
      if (pthread_create(&ids[i], 0, live, (void*)i) != 0) exit(2);
    for (int i = 0; i < kAtOnce; i++) pthread_join(ids[i], 0);
  }
  puts(wrong == 0 ? "ok" : "WRONG");
  return wrong != 0;
}
