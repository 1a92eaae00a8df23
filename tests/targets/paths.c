// Calls `leaf` by several ways, each a known number of times. Takes no arguments, and prints nothing.
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#include "noinline.h"
#include "sdt_note.h"

static volatile int sink;

NOINLINE int leaf(int number) {
  sink = number;
  return number;
}
NOINLINE int middle(int number) { return leaf(number) + 1; }
NOINLINE int outer(int number) { return middle(number) + 1; }
NOINLINE int other(int number) { return leaf(number) + 2; }
// Has an SDT point.
NOINLINE int passed(int number) {
  sink = number;
  SDT_POINT1("paths", "passed", number);
  return sink;
}
NOINLINE int passes(int number) { return passed(number) + 1; }
// None of these ends with a jump.
NOINLINE int deep(int depth) {
  const int result = depth == 0 ? leaf(depth) : deep(depth - 1);
  sink = result;
  return result;
}
// Its frame is found by rbp alone.
NOINLINE int roomy(int number) {
  volatile char* const room = alloca((size_t)number % 100 + 1);
  room[0] = 1;
  return leaf(number) + room[0];
}
static int compare(const void* a, const void* b) {
  return leaf(*(const int*)a - *(const int*)b) * 2;
}
static void handle(int number) { sink = leaf(number) + 1; }
static void* in_thread(void* argument) {
  for (int i = 0; i < 40; ++i) middle(i);
  return argument;
}

int main(void) {
  for (int i = 0; i < 1000; ++i) outer(i);
  for (int i = 0; i < 500; ++i) other(i);
  for (int i = 0; i < 7; ++i) deep(20);
  for (int i = 0; i < 60; ++i) passes(i);
  for (int i = 0; i < 300; ++i) roomy(i);
  for (int i = 0; i < 90; ++i) {
    int pair[] = {2, 1};
    qsort(pair, 2, sizeof pair[0], compare);
  }
  signal(SIGUSR1, handle);
  for (int i = 0; i < 30; ++i) raise(SIGUSR1);
  pthread_t thread;
  if (pthread_create(&thread, NULL, in_thread, NULL) != 0) return 1;
  pthread_join(thread, NULL);
  return 0;
}
