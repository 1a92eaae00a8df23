// A short process: calls a function of its own and one of libc TIMES each, and ends.
//
// Usage: short_target TIMES
#include <unistd.h>

#include <cstdlib>

extern "C" __attribute__((noinline)) long call_short_function(long value) {
  asm volatile("" : "+r"(value));
  return value + 1;
}

int main(int argc, char** argv) {
  long sum = 0;
  for (long i = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1; i > 0; --i)
    sum += call_short_function(i) + ::getppid();
  return sum == 0;
}
