// A program whose functions tests/cli/names.bats renames in its file, so that their names would
// forge lines and colours where they are printed as they are. For each line N on stdin it calls
// each function N times, and answers "called". It has a name of that kind itself.
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "noinline.h"

static volatile int sum;

NOINLINE void forger_with_newline(int n) {
  sum += n;
}
NOINLINE void forger_with_colours(int n) {
  sum += 2 * n;
}
NOINLINE void forger_with_no_utf8(int n) {
  sum += 3 * n;
}
NOINLINE void forger_with_control(int n) {
  sum += 4 * n;
}
NOINLINE void forger_to_the_right(int n) {
  sum += 5 * n;
}
NOINLINE void forger_with_returns(int n) {
  sum += 6 * n;
}
NOINLINE void forger_with_umlauts(int n) {
  sum += 7 * n;
}

int main(void) {
  char line[32];
  prctl(PR_SET_NAME, "x\n\033[7m\377y");
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    for (int n = atoi(line); n > 0; --n) {
      forger_with_newline(n);
      forger_with_colours(n);
      forger_with_no_utf8(n);
      forger_with_control(n);
      forger_to_the_right(n);
      forger_with_returns(n);
      forger_with_umlauts(n);
    }
    puts("called");
    fflush(stdout);
  }
  return 0;
}
