// Functions that are timed by exits. Each counts its calls.
// Reads lines, one after the other:
//     call THREADS ROUNDS    calls them all, in THREADS threads at once; answers `done`
//     enter                  waits, four calls deep, for lines; `leave` ends that; answers `inside`
//     fork                   forks in one of them, and calls another in the child and in itself
//     calls                  prints how often each was called
// At the end of the file, it ends.
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "noinline.h"

enum { LEAF, SEVERAL, RECURSE, TAIL, JUMPS, WAITS, SPLITS, FUNCTIONS };
static const char* const names[FUNCTIONS] = {"leaf",  "several", "recurse", "tail",
                                             "jumps", "waits",   "splits"};
static atomic_long* calls;  // of this process
static _Thread_local jmp_buf back;

NOINLINE long leaf(long x) {
  ++calls[LEAF];
  return 3 * x;
}

// Its returns lie in the middle of its code, and one call of it does not return.
NOINLINE long several(long x) {
  ++calls[SEVERAL];
  switch (x) {
    case 0:
      return leaf(x) + 1;
    case 1:
      return 7;
    case 2:
      if (leaf(x) != 6) abort();
      return 9;
    case 3:
      return x * leaf(x + 1);
    case 4:
      return -x;
  }
  return leaf(x) + 5;
}

NOINLINE long recurse(long n) {
  ++calls[RECURSE];
  if (n == 0) return 0;
  return 1 + recurse(n - 1) + several(n) - several(n);
}

NOINLINE long tail(long x) {
  ++calls[TAIL];
  return leaf(x + 1);
}

NOINLINE long jumps(long x) {
  ++calls[JUMPS];
  if (x % 3 == 0) longjmp(back, 1);
  return x;
}

// A child returns from it, too.
NOINLINE pid_t splits(void) {
  ++calls[SPLITS];
  const pid_t child = fork();
  if (child < 0) puts("WRONG");
  return child;
}

static int obey(void);

NOINLINE int waits(int depth) {
  ++calls[WAITS];
  if (depth != 0) {
    volatile int inner = waits(depth - 1);  // or the compiler makes a loop of it
    return inner + 1;
  }
  puts("inside");
  fflush(stdout);
  return obey();
}

static long rounds;

static void* work(void* unused) {
  (void)unused;
  for (volatile long i = 0; i < rounds; ++i) {
    if (leaf(i) != 3 * i || tail(i) != 3 * i + 3 || recurse(i % 20) != i % 20) puts("WRONG");
    long sum = 0;
    for (long x = 0; x < 6; ++x) sum += several(x);
    if (sum != 1 + 7 + 9 + 36 - 4 + 20) puts("WRONG");
    if (setjmp(back) == 0) jumps(i);
  }
  return NULL;
}

static void call_all(int threads) {
  pthread_t ids[64];
  for (int t = 0; t < threads; ++t) pthread_create(&ids[t], NULL, work, NULL);
  for (int t = 0; t < threads; ++t) pthread_join(ids[t], NULL);
}

static void fork_and_call(void) {
  const pid_t child = splits();
  for (long i = 0; i < 100; ++i) leaf(i);
  if (child == 0) _exit(0);
  waitpid(child, NULL, 0);
}

// Returns at `leave`, or at the end of the file.
static int obey(void) {
  char line[64];
  int threads;
  // Not by stdio: a child must not read what the parent has read ahead.
  for (;;) {
    size_t n = 0;
    while (n < sizeof line - 1) {
      if (read(0, line + n, 1) != 1) return 0;
      if (line[n++] == '\n') break;
    }
    line[n] = 0;
    if (sscanf(line, "call %d %ld", &threads, &rounds) == 2) call_all(threads);
    if (strcmp(line, "fork\n") == 0) fork_and_call();
    if (strcmp(line, "enter\n") == 0) waits(3);
    if (strcmp(line, "leave\n") == 0) return 0;
    if (strcmp(line, "calls\n") == 0)
      for (int i = 0; i < FUNCTIONS; ++i) printf("%s=%ld ", names[i], (long)calls[i]);
    puts(strcmp(line, "calls\n") == 0 ? "" : "done");
    fflush(stdout);
  }
}

int main(void) {
  calls = calloc(FUNCTIONS, sizeof *calls);
  puts("ready");
  fflush(stdout);
  obey();
}
