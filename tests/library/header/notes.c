// Points with arguments of known types, for tests of their notes. Waits for a line, and fires.
#include <pinprick/tracepoint.h>
#include <stdio.h>

PINPRICK_POINT_DECLARE(notes, plain, int, const char*, double, unsigned char, short);
PINPRICK_POINT_DEFINE(notes, plain);
PINPRICK_POINT_DECLARE(notes, wanted, long);
PINPRICK_POINT_DEFINE(notes, wanted);
struct pair {
  int first;
  double second;
};
PINPRICK_POINT_DECLARE(notes, most, int, long, const char*, double, float, struct pair, char, short,
                       unsigned, unsigned long, double, signed char);
PINPRICK_POINT_DEFINE(notes, most);

int main(void) {
  PINPRICK_POINT(notes, plain, -7, "text", 1.5, 200, -3);
  PINPRICK_POINT_SDT(notes, wanted, 4711L);
  const struct pair pair = {3, 4.5};
  PINPRICK_POINT(notes, most, 1, 2, "3", 4, 5, pair, 7, 8, 9, 10, 11, 12);
  PINPRICK_POINT_SDT(notes, most, 1, 2, "3", 4, 5, pair, 7, 8, 9, 10, 11, 12);
  puts("passed");
  return 0;
}
