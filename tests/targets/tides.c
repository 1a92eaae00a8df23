// Works all the time, and calls its functions as often as it is told, by one command per line on
// stdin:
//     surge MS RATE    MS milliseconds of CPU time, each with RATE calls of surge() and one of
//                      rarely(); the rest of each goes to work of its own
//     small MS RATE    the same with RATE calls of each of 90 small functions
//     pass MS RATE     the same with RATE calls of enter() and then of leave()
//     fork MS RATE     a forked child does the same as for surge, and ends
//     counts           nothing
// Answers each with a line: how often it has called surge() so far. Ends at the end of its input,
// with status 0.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "noinline.h"

NOINLINE long surge(long x) {
  __asm__ volatile("" : "+r"(x));
  return x * 3 + 1;
}

NOINLINE long rarely(long x) {
  __asm__ volatile("" : "+r"(x));
  return x ^ 7;
}

#define SMALL(n)                    \
  NOINLINE long small_##n(long x) { \
    __asm__ volatile("" : "+r"(x)); \
    return x + n;                   \
  }
#define TEN(F, n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7) F(n##8) F(n##9)
#define ALL(F) \
  TEN(F, 1) TEN(F, 2) TEN(F, 3) TEN(F, 4) TEN(F, 5) TEN(F, 6) TEN(F, 7) TEN(F, 8) TEN(F, 9)
ALL(SMALL)

static long call_small(long x) {
#define CALL(n) x = small_##n(x);
  ALL(CALL)
  return x;
}

static int64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

NOINLINE long enter(long x) {
  __asm__ volatile("" : "+r"(x));
  return x + 5;
}

NOINLINE long leave(long x) {
  __asm__ volatile("" : "+r"(x));
  return x - 5;
}

static volatile long sum;
static uint64_t surges;

static void call(const char* what, long x) {
  if (*what == 'p') {
    sum += leave(enter(x));
  } else if (*what == 's' && what[1] == 'm') {
    sum += call_small(x);
  } else {
    sum += surge(x);
    surges++;
  }
}

static void work(const char* what, long milliseconds, long rate) {
  for (long i = 0; i < milliseconds; i++) {
    const int64_t end = cpu_ns() + 1000000;
    for (long n = 0; n < rate; n++) call(what, n);
    sum += rarely(i);
    while (cpu_ns() < end)
      for (int turn = 0; turn < 1000; turn++) sum += turn;
  }
}

int main(void) {
  char word[32];
  setvbuf(stdout, 0, _IOLBF, 0);
  while (scanf("%31s", word) == 1) {
    long milliseconds = 0, rate = 0;
    if (strcmp(word, "counts") && scanf("%ld %ld", &milliseconds, &rate) == 2) {
      if (strcmp(word, "fork")) {
        work(word, milliseconds, rate);
      } else if (fork() == 0) {
        work("surge", milliseconds, rate);
        _exit(0);
      } else {
        wait(0);
      }
    }
    printf("%llu\n", (unsigned long long)surges);
  }
  return 0;
}
