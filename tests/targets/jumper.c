// jumper ROUNDS [lines]: abandons calls by longjmp and siglongjmp, also out of a signal handler,
// ROUNDS times each. Prints a sum that depends on where each jump arrived and on what was restored
// there, and how often leap() was called so far, which never returns. With `lines` it does so again
// for each line on stdin.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "noinline.h"

static jmp_buf back;
static sigjmp_buf out_of_handler;
static long leaps;

NOINLINE long leap(int value) {
  leaps++;
  if (value != 0) longjmp(back, value);  // always
  return 0;
}

NOINLINE long deep(int depth, int value) {
  return depth == 0 ? leap(value) : deep(depth - 1, value) + 1;
}

NOINLINE long arrives(int value) {
  volatile long kept = value * 3;
  const int with = setjmp(back);
  if (with == 0) return deep(value % 10, value + 1);
  return kept + with;
}

static void handler(int number) { siglongjmp(out_of_handler, number); }

NOINLINE long raises(int value) {
  volatile long kept = value * 5;
  const int with = sigsetjmp(out_of_handler, 1);
  if (with == 0) return raise(SIGUSR1);
  return kept + with;
}

static void jump(int rounds) {
  long sum = 0;
  for (int i = 0; i < rounds; i++) sum += arrives(i) + raises(i);
  printf("%ld\nleap %ld\n", sum, leaps);
  fflush(stdout);
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 0;
  signal(SIGUSR1, handler);
  if (argc < 3) jump(rounds);
  while (argc > 2 && getchar() == '\n') jump(rounds);
  return 0;
}
