// Does the same work in each run, in functions whose lengths are on its command line.
//     weighed ROUNDS FIRST SECOND THIRD FOURTH
// Each function is called ROUNDS times, and turns a loop as often as its number says. work() calls
// all of them, and rest() nothing.
#include <stdlib.h>

#include "noinline.h"

static volatile unsigned long sink;

// Each turn needs the result of the one before it.
static inline void spin(long turns) {
  unsigned long x = 1;
  for (long i = 0; i < turns; i++) {
    x = x * 3 + 1;
    __asm__ volatile("" : "+r"(x));
  }
  sink = x;
}

NOINLINE void first(long turns) { spin(turns); }
NOINLINE void second(long turns) { spin(turns + sink % 1); }
NOINLINE void third(long turns) { spin(turns + sink % 1 * 2); }
NOINLINE void fourth(long turns) { spin(turns + sink % 1 * 3); }
NOINLINE void rest(void) { sink = sink + 1; }

NOINLINE void work(const long* turns) {
  first(turns[0]);
  second(turns[1]);
  third(turns[2]);
  fourth(turns[3]);
  rest();
}

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  long turns[4];
  for (int i = 0; i < 4; i++) turns[i] = atol(argv[2 + i]);
  for (long i = 0; i < atol(argv[1]); i++) work(turns);
  return 0;
}
