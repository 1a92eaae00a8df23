// even() and odd() tail call each other, DEPTH times in a row, with one stack frame and one return
// for all of them. Prints the result, then how often even() and odd() were entered.
#include <stdio.h>
#include <stdlib.h>

#include "noinline.h"

static long evens, odds;

NOINLINE long even(long depth);

NOINLINE long odd(long depth) {
  odds++;
  return depth == 0 ? 1 : even(depth - 1);
}

NOINLINE long even(long depth) {
  evens++;
  return depth == 0 ? 2 : odd(depth - 1);
}

int main(int argc, char** argv) {
  const long depth = argc > 1 ? atol(argv[1]) : 0;
  printf("%ld\n", even(depth));
  printf("even %ld\nodd %ld\n", evens, odds);
  return 0;
}
