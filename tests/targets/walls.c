// A thread maps half of the address space, where others would map something, and unmaps it again,
// all the time. A line on stdin makes the first thread call tick() 1,000 times, and is answered
// with "ok". Ends at the end of its input.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#include "noinline.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

NOINLINE long tick(long x) {
  __asm__ volatile("" : "+r"(x));
  return x * 3 + 1;
}

static void* build(void* unused) {
  (void)unused;
  void* const begin = (void*)0x010000000000;
  const size_t size = 0x530000000000;
  for (;;)
    if (mmap(begin, size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == begin)
      munmap(begin, size);
}

int main(void) {
  char line[16];
  pthread_t other;
  setvbuf(stdout, 0, _IOLBF, 0);
  if (pthread_create(&other, 0, build, 0) != 0) return 2;
  while (fgets(line, sizeof line, stdin)) {
    long sum = 0;
    for (long i = 0; i < 1000; i++) sum += tick(i);
    puts(sum == 1499500 ? "ok" : "WRONG");
  }
  return 0;
}
