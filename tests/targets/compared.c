// Does the same work in each run: how often it calls its functions is on its command line.
//     compared STEADY LEFT RIGHT
// steady() is called STEADY times, and shared() LEFT times by left() and RIGHT times by right().
#include <stdlib.h>

#include "noinline.h"

NOINLINE long steady(long x) {
  __asm__ volatile("" : "+r"(x));
  return x + 1;
}

NOINLINE long shared(long x) {
  __asm__ volatile("" : "+r"(x));
  return x * 3;
}

NOINLINE long left(long n) {
  long sum = 0;
  for (long i = 0; i < n; i++) sum += shared(i);
  return sum;
}

NOINLINE long right(long n) {
  long sum = 1;
  for (long i = 0; i < n; i++) sum += shared(i);
  return sum;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  long sum = 0;
  for (long i = 0; i < atol(argv[1]); i++) sum += steady(i);
  return left(atol(argv[2])) + right(atol(argv[3])) + sum == -1;
}
