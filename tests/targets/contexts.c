// Two contexts on stacks of their own and the main one switch to each other by swapcontext, ROUNDS
// times, each from within a call in flight. Prints a sum that depends on the order of the switches,
// and how often turn() was called, which always returns on its own stack.
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "noinline.h"

enum { kContexts = 3, kStack = 65536 };
static ucontext_t contexts[kContexts];
static int rounds;
static long turns, order = 1;

NOINLINE long turn(int self, long value) {
  const int next = (self + 1) % kContexts;
  turns++;
  order = order * 31 % 1000003 + self;
  swapcontext(&contexts[self], &contexts[next]);
  return value * 2 + self;
}

NOINLINE void takes_turns(int self) {
  for (int i = 0; i < rounds; i++)
    if (turn(self, i) != i * 2 + self) puts("WRONG");
  setcontext(&contexts[(self + 1) % kContexts]);
}

int main(int argc, char** argv) {
  rounds = argc > 1 ? atoi(argv[1]) : 0;
  for (int i = 1; i < kContexts; i++) {
    getcontext(&contexts[i]);
    contexts[i].uc_stack.ss_sp = malloc(kStack);
    contexts[i].uc_stack.ss_size = kStack;
    makecontext(&contexts[i], (void (*)(void))takes_turns, 1, i);
  }
  for (int i = 0; i < rounds; i++)
    if (turn(0, i) != i * 2) puts("WRONG");
  printf("%ld\nturn %ld\n", order, turns);
  return 0;
}
