// Calls its functions exactly as often as requested, by one command per line on stdin:
//     tick N         tick() N times, spread over all threads
//     nap MS         nap(MS) once
//     doze MS        doze(MS) once, which ends in a tail call of nap()
//     recurse N      recurse() to depth N
//     leap N         leap() N times, which never returns
//     ready          nothing
// Answers each with a line. Ends at the end of its input, with status 0.
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "noinline.h"

NOINLINE long tick(long x) {
  __asm__ volatile("" : "+r"(x));
  return x * 3 + 1;
}

NOINLINE int nap(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  return nanosleep(&t, 0);
}

NOINLINE int doze(long ms) {
  return nap(ms);
}

NOINLINE long recurse(long depth) {
  long below = depth > 0 ? recurse(depth - 1) : 0;
  __asm__ volatile("" : "+r"(below));
  return below + 1;
}

static jmp_buf start;

NOINLINE void leap(void) {
  longjmp(start, 1);
}

static void leap_often(long n) {
  volatile long left = n;
  setjmp(start);
  if (left-- > 0) leap();
}

static int threads = 1;
static long ticks_each;

static void* ticking(void* sum) {
  for (long i = 0; i < ticks_each; i++) *(long*)sum += tick(i);
  return 0;
}

static void tick_on_all_threads(long n) {
  pthread_t ids[64];
  long sums[64] = {0}, sum = 0, expected = 0;
  ticks_each = n / threads;
  for (int i = 1; i < threads; i++) pthread_create(&ids[i], 0, ticking, &sums[i]);
  ticking(&sums[0]);
  for (int i = 1; i < threads; i++) pthread_join(ids[i], 0);
  for (int i = 0; i < threads; i++) sum += sums[i];
  for (long i = 0; i < ticks_each; i++) expected += i * 3 + 1;
  printf("%s\n", sum == expected * threads ? "ticked" : "WRONG");
}

int main(int argc, char** argv) {
  if (argc > 1) threads = atoi(argv[1]);
  char word[32];
  long n;
  setvbuf(stdout, 0, _IOLBF, 0);
  while (scanf("%31s", word) == 1) {
    if (!strcmp(word, "ready")) puts("ready");
    if (!strcmp(word, "tick") && scanf("%ld", &n) == 1) tick_on_all_threads(n);
    if (!strcmp(word, "nap") && scanf("%ld", &n) == 1) puts(nap(n) == 0 ? "napped" : "WRONG");
    if (!strcmp(word, "doze") && scanf("%ld", &n) == 1) puts(doze(n) == 0 ? "dozed" : "WRONG");
    if (!strcmp(word, "leap") && scanf("%ld", &n) == 1) {
      leap_often(n);
      puts("leapt");
    }
    if (!strcmp(word, "recurse") && scanf("%ld", &n) == 1)
      puts(recurse(n) == n + 1 ? "recursed" : "WRONG");
  }
  return 0;
}
