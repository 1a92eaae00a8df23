// Tiny functions, one directly after the other if they are compiled without alignment: a probe's
// jump must lead through a trampoline, or end in its neighbour's bytes without changing them. One
// is roomy.
#ifndef TINY_FUNCTIONS_H
#define TINY_FUNCTIONS_H
#include "noinline.h"

NOINLINE int one(int x) {
  __asm__ volatile("" : "+r"(x));
  return x + 1;
}
NOINLINE int two(int x) {
  __asm__ volatile("" : "+r"(x));
  return x - 2;
}
NOINLINE int three(int x) {
  __asm__ volatile("" : "+r"(x));
  return -x;
}
NOINLINE long roomy(long x) {
  __asm__ volatile("" : "+r"(x));
  return x * 77777 + 123456789;
}
NOINLINE int four(int x) {
  __asm__ volatile("" : "+r"(x));
  return x;
}
#endif
