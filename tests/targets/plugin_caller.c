// Loaded by dlhost.c. Calls getppid() of the C library a given number of times.
#include <unistd.h>

#include "noinline.h"

NOINLINE long plugin_main(long n) {
  for (long i = 0; i < n; i++)
    if (getppid() < 0) return -1;
  return n;
}
