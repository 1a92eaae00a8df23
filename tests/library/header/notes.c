// Points with arguments of known types, for tests of their notes. Waits for a line, and fires.
#include <pinprick/tracepoint.h>
#include <stdio.h>

PINPRICK_POINT_DECLARE(notes, plain, int, const char*, double, unsigned char, short);
PINPRICK_POINT_DEFINE(notes, plain);
PINPRICK_POINT_DECLARE(notes, wanted, long);
PINPRICK_POINT_DEFINE(notes, wanted);

int main(void) {
  PINPRICK_POINT(notes, plain, -7, "text", 1.5, 200, -3);
  PINPRICK_POINT_SDT(notes, wanted, 4711L);
  puts("passed");
  return 0;
}
