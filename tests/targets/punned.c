// Calls the functions of punned.S from several threads.
//     punned THREADS CALLS     CALLS times; prints each thread's result
//     punned THREADS           until stdin ends; answers each line with "ok" if all is right, and
//                              SIGUSR1 with "whole" if the thread's backtrace is complete
//     punned THREADS wall      the same, with mappings nearly all the way to 2 GB below the program
#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "noinline.h"

void* _Unwind_FindEnclosingFunction(void* pc);

void one(void);
long behind_one(int x), looped(long n), paired(long n), prefixed(int n);
long edge(int x), wide_edge(long x), short_edge(long x), tabled(int x), marked(int x);
void locked(long* x, int alone);

static long calls = 2000;
static atomic_long begun, rounds, wrong;

static long call_all(long i) {
  static _Thread_local long counter;
  const long before = counter;
  one();
  locked(&counter, i & 1);
  return behind_one((int)i) + looped(i % 8 + 1) + paired(i % 4) + prefixed(i % 4) + edge((int)i) +
         wide_edge(i) + short_edge(i) + tabled((int)i) + marked((int)i) + counter - before;
}

static long expected(long i) {
  const long times = i % 4 ? i % 4 : 1;
  const long edges = 2 * (i - 0x70f00) + i;
  return (i & 7) + (i & 1) + i - 16 * (i % 8 + 1) - 16 * (i % 4 + 1) + times * 0x900000 + edges + 16;
}

static void* work(void* sum) {
  for (long i = 0; i < calls; i++) {
    const long got = call_all(i);
    if (got != expected(i)) wrong++;
    *(long*)sum += got;
  }
  return 0;
}

NOINLINE void* work_on(void* sum) {
  for (begun++;;) {
    work(sum);
    rounds++;
  }
}

static void on_signal(int signal) {
  void* frames[16];
  int whole = 0;
  (void)signal;
  for (int i = backtrace(frames, 16); i-- > 0;)
    whole |= _Unwind_FindEnclosingFunction(frames[i]) == (void*)work_on;
  if (write(1, whole ? "whole\n" : "cut\n", whole ? 6 : 4) < 0) _exit(1);
}

int main(int argc, char** argv) {
  enum { kMost = 16 };
  pthread_t threads[kMost];
  long sums[kMost] = {0};
  void* frames[1];
  backtrace(frames, 1);  // loads libgcc_s now
  signal(SIGUSR1, on_signal);
  const int count = argc > 1 && atoi(argv[1]) < kMost ? atoi(argv[1]) : kMost;
  const int walled = argc > 2 && !strcmp(argv[2], "wall"), counts = argc > 2 && !walled;
  if (counts) calls = atol(argv[2]);
  if (walled) {
    const long kBelow = 2040L << 20, kFree = 16L << 20;
    if (mmap((char*)((long)main & -4096) - kBelow, kBelow - kFree, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
      return 3;
  }
  for (int i = 0; i < count; i++)
    pthread_create(&threads[i], 0, counts ? work : work_on, &sums[i]);
  if (counts) {
    for (int i = 0; i < count; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < count; i++) printf("%ld\n", sums[i]);
    return wrong != 0;
  }
  setvbuf(stdout, 0, _IOLBF, 0);
  while (begun < count) sched_yield();
  for (int c; (c = getchar()) != EOF;) {
    if (c != '\n') continue;
    for (const long before = rounds; rounds < before + count && !wrong;) sched_yield();
    puts(wrong ? "wrong" : "ok");
  }
  return 0;
}
