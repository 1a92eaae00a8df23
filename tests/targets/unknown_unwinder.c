// Has an unwinder of its own in place of libgcc's, unlike any known one: all of its functions that
// the C library calls go through a pointer. `unknown_unwinder [N]` calls work() N times, and prints
// the sum.
#include <stdio.h>
#include <stdlib.h>

#include "noinline.h"

static long ends(void* with) {
  printf("unwound %d\n", with != 0);
  exit(3);
}
static long (*volatile goes_on)(void*) = ends;

#define OF_UNWINDER(name) \
  long name(void* with) { return goes_on(with) + 1; }
OF_UNWINDER(_Unwind_Resume)
OF_UNWINDER(_Unwind_ForcedUnwind)
OF_UNWINDER(_Unwind_Backtrace)
OF_UNWINDER(_Unwind_GetCFA)
OF_UNWINDER(_Unwind_GetIP)
OF_UNWINDER(_Unwind_GetGR)
OF_UNWINDER(__gcc_personality_v0)

NOINLINE long work(long x) {
  __asm__ volatile("" : "+r"(x));
  return x + 1;
}

int main(int argc, char** argv) {
  long sum = 0;
  for (long i = 0; i < (argc > 1 ? atol(argv[1]) : 10); i++) sum += work(i);
  printf("sum %ld\n", sum);
}
