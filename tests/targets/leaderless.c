// Its first thread ends by pthread_exit, and another one goes on: the process still has its memory
// and its files, but /proc/PID does not show them. For each line with a number N on stdin it calls
// tick() N times, and answers "ticked". Ends at the end of its input. With an argument, the first
// thread prints "held", and only ends after the first line.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "noinline.h"

NOINLINE long tick(long x) {
  __asm__ volatile("" : "+r"(x));
  return x * 3 + 1;
}

static pthread_t first;

static void* serve(void* unused) {
  (void)unused;
  long n;
  pthread_join(first, 0);
  puts("ready");
  while (scanf("%ld", &n) == 1) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += tick(i);
    puts(sum == n * (n - 1) / 2 * 3 + n ? "ticked" : "WRONG");
  }
  exit(0);
}

int main(int argc, char** argv) {
  (void)argv;
  pthread_t other;
  setvbuf(stdout, 0, _IOLBF, 0);
  if (argc > 1) {
    long unused;
    puts("held");
    if (scanf("%ld", &unused) != 1) return 2;
  }
  first = pthread_self();
  if (pthread_create(&other, 0, serve, 0) != 0) return 2;
  pthread_exit(0);
}
