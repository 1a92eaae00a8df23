// Exits within calls: last_words() calls exit(3), which runs the exit handlers, while a thread
// waits in waits() for ever. Prints what ran, in order.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "noinline.h"

static pthread_barrier_t both;

NOINLINE void* waits(void* unused) {
  pthread_barrier_wait(&both);
  for (;;) pause();
  return unused;
}

NOINLINE void at_exit(void) { puts("handler"); }

NOINLINE _Noreturn void last_words(void) {
  puts("last words");
  exit(3);
}

int main(void) {
  pthread_t thread;
  atexit(at_exit);
  pthread_barrier_init(&both, 0, 2);
  if (pthread_create(&thread, 0, waits, 0)) return 1;
  pthread_barrier_wait(&both);
  last_words();
}
