// A program with HIVE functions (hive.S). For each line `N` on stdin it calls N of them, spread
// over all, each once more often than the one before: 1, 2, ... times. Then it prints "called".
// Ends at the end of its input.
#include <stdio.h>

extern char hive[];

int main(void) {
  for (int n; scanf("%d", &n) == 1;) {
    for (int i = 0; i < n; ++i) {
      long (*const bee)(long) = (long (*)(long))(hive + 16L * (HIVE / n) * i);
      for (int j = 0; j <= i; ++j)
        if (bee(j) != j + 256) puts("WRONG");
    }
    puts("called");
    fflush(stdout);
  }
  return 0;
}
