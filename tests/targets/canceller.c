// Threads that are cancelled, threads that exit within nested calls, and a backtrace. In C, so that
// libgcc_s is only loaded for the first of these. Each line on stdin makes a round. Ends at the end
// of its input.
#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "noinline.h"

static volatile long cleaned;
static volatile int waiting;

static void clean(void* by) {
  cleaned += (long)by;
}

NOINLINE long waits(long depth) {
  long below = 0;
  pthread_cleanup_push(clean, (void*)depth);
  if (depth > 0) {
    below = waits(depth - 1);
  } else {
    waiting = 1;
    for (;;) pause();
  }
  pthread_cleanup_pop(0);
  return below + 1;
}

NOINLINE long leaves(long depth) {
  long below = 0;
  pthread_cleanup_push(clean, (void*)(depth * 100));
  if (depth == 0) pthread_exit((void*)7);
  below = leaves(depth - 1);
  pthread_cleanup_pop(0);
  return below + 1;
}

NOINLINE int traces(int depth) {
  void* frames[100];
  int below = depth > 0 ? traces(depth - 1) : backtrace(frames, 100);
  __asm__ volatile("" : "+r"(below));
  return below;
}

static void* wait_for_it(void* argument) {
  return (void*)waits((long)argument);
}

static void* leave(void* argument) {
  return (void*)leaves((long)argument);
}

int main(void) {
  while (getchar() != EOF) {
    pthread_t thread;
    void* result = 0;
    waiting = 0;
    pthread_create(&thread, 0, wait_for_it, (void*)10);
    while (!waiting) usleep(100);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled %d, ", result == PTHREAD_CANCELED);
    pthread_create(&thread, 0, leave, (void*)10);
    pthread_join(thread, &result);
    printf("left with %ld, cleaned %ld, trace %s\n", (long)result, cleaned,
           traces(20) >= 22 ? "whole" : "cut");
    fflush(stdout);
  }
  return 0;
}
