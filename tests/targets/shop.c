// A program with points of pinprick/tracepoint.h. For each line `N` on stdin it takes and sends N
// orders, and prints "done". shop:taken has a site in each of two files, for even and odd numbers.
// Ends at the end of its input.
#include "shop.h"

#include <stdio.h>

PINPRICK_POINT_DEFINE(shop, taken);
PINPRICK_POINT_DEFINE(shop, sent);

static void work_off(long number) {
  if (number % 2 == 0)
    PINPRICK_POINT_SDT(shop, taken, number);
  else
    take_elsewhere(number);
  PINPRICK_POINT_SDT(shop, sent, number);
}

int main(void) {
  for (long n; scanf("%ld", &n) == 1;) {
    for (long i = 0; i < n; ++i) work_off(i);
    puts("done");
    fflush(stdout);
  }
  return 0;
}
