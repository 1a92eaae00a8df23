// recalled: at a line on stdin it copies its stack and abandons a call by longjmp. At the next line
// it puts the copy back, and returns from the call. Coroutine libraries that have one stack for all
// do the same. Prints `left`, then `back`.
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "noinline.h"

static jmp_buf outside, inside;
static unsigned char aside[1 << 15];
static unsigned char *low, *high;

NOINLINE void leave(void) {
  low = (unsigned char*)__builtin_frame_address(0) - 512;
  memcpy(aside, low, (size_t)(high - low));
  longjmp(outside, 1);
}

NOINLINE long waits(long value) {
  volatile long kept = value * 3;
  if (setjmp(inside) == 0) leave();
  return kept + 1;
}

NOINLINE long calls(long value) { return waits(value) + 1; }

NOINLINE void come_back(void) {
  volatile unsigned char room[2 * sizeof aside];  // so that this frame is below the restored stack
  room[0] = 1;
  memcpy(low, aside, (size_t)(high - low));
  longjmp(inside, room[0]);
}

static void read_line(void) {
  while (getchar() != '\n') continue;
}

NOINLINE int run(void) {
  read_line();
  if (setjmp(outside) == 0) {
    calls(7);
    puts("back");
    return 0;
  }
  puts("left");
  fflush(stdout);
  read_line();
  come_back();
  return 1;
}

int main(void) {
  high = __builtin_frame_address(0);
  volatile int result = run();
  return result;
}
