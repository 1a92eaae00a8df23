// Functions without branches: each instruction of them runs once a call. Tiny ones lie next to each
// other, and some call others. Reads one command per line on stdin:
//     call N     each of them N times on each of two threads; those that others call, twice as
//     often
// and answers it with a line. Compiled without alignment of functions.
#include <pthread.h>
#include <stdio.h>

#include "noinline.h"
#include "tiny_functions.h"

NOINLINE long inner(long x) {
  __asm__ volatile("" : "+r"(x));
  return (x ^ 0x5555) * 3 + (x >> 2);
}
NOINLINE long outer(long x) {
  long result = inner(x + 7);
  __asm__ volatile("" : "+r"(result));
  return result - 1;
}
NOINLINE long mixed(long x, long y) {
  __asm__ volatile("" : "+r"(x), "+r"(y));
  return (x + y * 5) ^ (x << 3) ^ (y >> 1);
}
NOINLINE long stored(long x) {
  volatile long kept = x;
  kept = kept + 3;
  return kept * 2;
}

static long calls;

static void* work(void* sum) {
  for (long i = 0; i < calls; i++)
    *(long*)sum += one((int)i) + two((int)i) + three((int)i) + roomy(i) + four((int)i) + inner(i) +
                   outer(i) + mixed(i, 3) + stored(i);
  return 0;
}

static long expected(long n) {
  long sum = 0;
  for (long i = 0; i < n; i++) {
    const long seven = i + 7;
    sum += i + 1 + i - 2 - i + i * 77777 + 123456789 + i + (i ^ 0x5555) * 3 + (i >> 2) +
           (seven ^ 0x5555) * 3 + (seven >> 2) - 1 + ((i + 15) ^ (i << 3) ^ 1) + (i + 3) * 2;
  }
  return sum;
}

int main(void) {
  setvbuf(stdout, 0, _IOLBF, 0);
  long n;
  while (scanf(" call %ld", &n) == 1) {
    pthread_t thread;
    long sums[2] = {0};
    calls = n;
    pthread_create(&thread, 0, work, &sums[0]);
    work(&sums[1]);
    pthread_join(thread, 0);
    puts(sums[0] == expected(n) && sums[1] == expected(n) ? "called" : "WRONG");
  }
  return 0;
}
