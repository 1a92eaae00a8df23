// Loaded by dlhost.c. Calls plugin_step() five times from its constructor.
#include "noinline.h"

static long steps;

NOINLINE long plugin_step(long x) {
  __asm__ volatile("" : "+r"(x));
  return ++steps + x;
}

__attribute__((constructor)) static void plugin_begin(void) {
  for (long i = 0; i < 5; i++) plugin_step(i);
}

// Only right if the constructor has run once, and every step has returned.
NOINLINE long plugin_main(long n) {
  const long before = steps;
  for (long i = 0; i < n; i++)
    if (plugin_step(i) != before + 2 * i + 1) return -1;
  return before < 5 ? -1 : n;
}
