// Calls write() and `work` while variables of its own have values that it changes, each a known
// number of times. Takes no arguments, and prints nothing.
#include <getopt.h>
#include <stdint.h>
#include <unistd.h>

#include "noinline.h"

volatile int level = -1;
static volatile uint8_t small;
volatile uint16_t wide;
volatile int64_t big;
__thread volatile int of_thread;
volatile struct {
  int first, second, third;
} several;

// Of 600 calls, 120 find -7, and 480 find 7. Each returns with the opposite.
NOINLINE int work(int number) {
  level = -level;
  return number;
}

int main(void) {
  // The linker copies this variable of the C library into the program, and then both use the copy.
  // Of 21 calls, one finds 1, two find 2, and so on.
  for (optind = 1; optind <= 6; ++optind)
    for (int i = 0; i < optind; ++i)
      if (write(STDERR_FILENO, "", 0) != 0) return 1;
  for (int i = 0; i < 600; ++i) {
    small = (uint8_t)(i % 3);
    wide = (uint16_t)(40000 + i % 2);
    big = i % 4 == 0 ? -1 : INT64_C(1) << 40;
    level = i % 5 == 0 ? -7 : 7;
    of_thread = several.second = work(i);
  }
  return 0;
}
