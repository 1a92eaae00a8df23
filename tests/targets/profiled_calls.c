// profiled_calls ROUNDS, compiled with -pg: each function calls the profiler at its entry, which
// notes the function and its caller. Prints these pairs, and how often each was noted.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "noinline.h"

#define UNSEEN __attribute__((no_instrument_function))

extern const char __executable_start[];

static struct {
  uintptr_t caller, function;
  long calls;
} pairs[64];

// Called by the profiler's routines (profiler.S).
UNSEEN void note_call(uintptr_t caller, uintptr_t function) {
  int i = 0;
  while (pairs[i].calls != 0 && (pairs[i].caller != caller || pairs[i].function != function)) i++;
  pairs[i].caller = caller;
  pairs[i].function = function;
  pairs[i].calls++;
}

NOINLINE long leaf(long value) { return value * 3 + 1; }
NOINLINE long middle(long value) { return leaf(value) + leaf(value + 1); }
NOINLINE long outer(long value) { return value % 2 == 0 ? middle(value) + 1 : leaf(value) + 2; }

UNSEEN int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 100;
  long sum = 0;
  for (long i = 0; i < rounds; i++) sum += outer(i);
  printf("sum %ld\n", sum);
  for (int i = 0; pairs[i].calls != 0; i++)
    printf("%#lx -> %#lx: %ld\n", (unsigned long)(pairs[i].caller - (uintptr_t)__executable_start),
           (unsigned long)(pairs[i].function - (uintptr_t)__executable_start), pairs[i].calls);
}
