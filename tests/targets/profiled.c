// Works for a number of rounds, its argument, in functions that do next to nothing, and unwinds its
// stack in a signal handler ten thousand times a second. Prints the result of its work, how many of
// these backtraces reached main, and where the first one that did not was taken.
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "noinline.h"

int main(int argc, char** argv);

static volatile long whole, cut, begun;
static void* cut_at[64];
static int cut_depth;

// It is the only function in its section, .text.startup.
static int is_in_main(const void* address) {
  const char* begin = (const char*)&main;
  return (const char*)address > begin && (const char*)address <= begin + 1024;
}

static void on_signal(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  void* frames[64];
  if (!begun) return;
  const int depth = backtrace(frames, 64);
  for (int i = 0; i < depth; ++i)
    if (is_in_main(frames[i])) {
      ++whole;
      return;
    }
  if (cut++ == 0) {
    memcpy(cut_at, frames, sizeof frames);
    cut_at[0] = (void*)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
    cut_depth = depth;
  }
}

NOINLINE long leaf(long x) { return x * 3 + 1; }
NOINLINE long adds(long a, long b, long c, long d, long e, long f, long g) {
  return leaf(a + b + c) + leaf(d + e + f + g);
}
NOINLINE long falls(long n) { return n <= 0 ? 1 : falls(n - 1) + leaf(n); }
NOINLINE long sums(const long* from, long n) {
  long sum = 0;
  for (long i = 0; i < n; ++i) sum += leaf(from[i]);
  return sum;
}
static int compares(const void* a, const void* b) {
  const long x = *(const long*)a, y = *(const long*)b;
  return (x > y) - (x < y);
}
NOINLINE long jumps(long x) { return x & 1 ? leaf(x) : falls(x & 7); }
NOINLINE long turns(long x) {
  long numbers[16];
  for (int i = 0; i < 16; ++i) numbers[i] = leaf(x * i) ^ 0x55;
  qsort(numbers, 16, sizeof numbers[0], compares);
  return sums(numbers, 16) + adds(x, 1, 2, 3, 4, 5, 6) + jumps(x);
}

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 1000;
  void* frames[2];
  backtrace(frames, 2);  // loads what it needs
  struct sigaction action = {0};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGPROF, &action, 0);
  struct sigevent event = {0};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
  event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return 1;
  const struct itimerspec often = {{0, 100000}, {0, 100000}};
  timer_settime(timer, 0, &often, 0);
  begun = 1;
  long result = 0;
  for (long i = 0; i < rounds; ++i) result += turns(i);
  begun = 0;
  timer_delete(timer);
  printf("result %ld\n", result);
  printf("backtraces %ld, cut %ld\n", whole + cut, cut);
  for (int i = 0; i < cut_depth; ++i) printf("  %p\n", cut_at[i]);
  return 0;
}
