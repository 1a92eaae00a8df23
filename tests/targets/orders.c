// A program with tracepoints of pinprick/tracepoint.h, and without libpinprick. For each line `N`
// on stdin it takes N orders, and then prints how many there were so far, and how often the
// arguments of each point were evaluated: "orders 3 order 0 mixed 0 first 0". Ends at the end of
// its input.
//
//     shop:order   hit once for each order: one of two sites, for even and odd numbers (the number,
//                  and the number & 3 as an int)
//     shop:mixed   hit twice: a site of the plain form, and one with the semaphore (the number)
//     shop:first   hit once: its nop is the first instruction of first_step() (the number)
#include <stdio.h>

#include "pinprick/tracepoint.h"

PINPRICK_POINT_DECLARE(shop, order, long, int);
PINPRICK_POINT_DEFINE(shop, order);
PINPRICK_POINT_DECLARE(shop, mixed, long);
PINPRICK_POINT_DEFINE(shop, mixed);
PINPRICK_POINT_DECLARE(shop, first, long);
PINPRICK_POINT_DEFINE(shop, first);

static long orders, at_order, at_mixed, at_first;
static volatile long work;

static long seen(long* evaluated, long number) {
  ++*evaluated;
  return number;
}

static inline __attribute__((always_inline)) void note_order(long number) {
  PINPRICK_POINT(shop, order, seen(&at_order, number), (int)(number & 3));
}

__attribute__((noinline)) static void take(long number) {
  if (number % 2 == 0) {
    note_order(number);
    work += number;
  } else {
    work -= number;
    note_order(number);
  }
}

__attribute__((noinline)) static void mix(long number) {
  PINPRICK_POINT(shop, mixed, seen(&at_mixed, number));
  work += number;
  PINPRICK_POINT_SDT(shop, mixed, seen(&at_mixed, number));
}

__attribute__((noinline)) void first_step(long number) {
  PINPRICK_POINT(shop, first, seen(&at_first, number));
  work ^= number;
}

int main(void) {
  char line[64];
  while (fgets(line, sizeof line, stdin) != NULL) {
    long count = 0;
    if (sscanf(line, "%ld", &count) != 1) continue;
    for (long i = 0; i < count; ++i) {
      ++orders;
      take(orders);
      mix(orders);
      first_step(orders);
    }
    printf("orders %ld order %ld mixed %ld first %ld\n", orders, at_order, at_mixed, at_first);
    fflush(stdout);
  }
  return 0;
}
