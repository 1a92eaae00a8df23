// Loaded by dlhost.c: throws through its own functions, and catches. The first C++ in the process.
#include <stdexcept>

#include "noinline.h"

extern "C" {

NOINLINE long plugin_step(long x) {
  __asm__ volatile("" : "+r"(x));
  if (x % 2 == 0) throw std::runtime_error("even");
  return x;
}

NOINLINE long plugin_through(long x) {
  const long y = plugin_step(x);
  __asm__ volatile("");
  return y;
}

long plugin_main(long n) {
  long thrown = 0;
  for (long i = 0; i < n; i++) try {
      if (plugin_through(i) != i) return -1;
    } catch (const std::runtime_error&) {
      thrown++;
    }
  return thrown == (n + 1) / 2 ? n : -1;
}
}
