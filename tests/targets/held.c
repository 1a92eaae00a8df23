// Runs spin() all the time. A SIGUSR1 holds it: "held" is printed, and a line read from stdin, before
// it goes on ("on"). Ends, with status 0, at the end of its input, which is looked at then.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "noinline.h"

NOINLINE unsigned long spin(unsigned long x) {
  for (int i = 0; i < 1000; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  return x;
}

static void hold(int signal) {
  char line[16];
  (void)signal;
  if (write(1, "held\n", 5) != 5 || read(0, line, sizeof line) <= 0) _exit(0);
  if (write(1, "on\n", 3) != 3) _exit(1);
}

int main(void) {
  unsigned long x = 88172645463325252u, y = x;
  signal(SIGUSR1, hold);
  if (write(1, "ready\n", 6) != 6) return 1;
  for (;;) {
    x = spin(x);
    for (int i = 0; i < 1000; i++) {
      y ^= y << 13;
      y ^= y >> 7;
      y ^= y << 17;
    }
    if (x != y) abort();
  }
}
