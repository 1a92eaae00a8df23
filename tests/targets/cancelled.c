// Threads that are cancelled asynchronously while they call functions that do next to nothing, one
// after the other; its argument is their number. Each has a clean-up handler. Prints how many of
// these ran.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "noinline.h"

static volatile long cleaned, works;

static void clean(void* by) {
  cleaned += (long)by;
}

NOINLINE long leaf(long x) {
  __asm__ volatile("" : "+r"(x));  // so that the call is not optimised away
  return x * 3 + 1;
}
NOINLINE long deeper(long x) { return leaf(x) + leaf(x + 1); }

NOINLINE long cleans_up(long depth) {
  long result = 0;
  pthread_cleanup_push(clean, (void*)1);
  if (depth > 0) {
    result = cleans_up(depth - 1);
  } else {
    int type;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    works = 1;
    for (long i = 0;; ++i) result += deeper(i);
  }
  pthread_cleanup_pop(0);
  return result + 1;
}

static void* begin(void* argument) {
  return (void*)cleans_up((long)argument);
}

int main(int argc, char** argv) {
  const long threads = argc > 1 ? atol(argv[1]) : 100;
  long cancelled = 0;
  for (long i = 0; i < threads; ++i) {
    pthread_t thread;
    void* result = 0;
    works = 0;
    pthread_create(&thread, 0, begin, (void*)3);
    while (!works) sched_yield();
    // At a different instruction each time.
    for (volatile long j = 0; j < 2000 + i * 37 % 1000; ++j) {
    }
    pthread_cancel(thread);
    pthread_join(thread, &result);
    cancelled += result == PTHREAD_CANCELED;
  }
  printf("cancelled %ld, cleaned %ld\n", cancelled, cleaned);
  return 0;
}
