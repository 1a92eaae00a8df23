// Calls tiny functions. Reads one command per line on stdin:
//     call N     each of them N times, on two threads
// and answers it with a line. Compiled without alignment of functions.
#include <pthread.h>
#include <stdio.h>

#include "tiny_functions.h"

static long calls;

static void* work(void* sum) {
  for (long i = 0; i < calls; i++)
    *(long*)sum += one((int)i) + two((int)i) + three((int)i) + roomy(i) + four((int)i);
  return 0;
}

int main(void) {
  setvbuf(stdout, 0, _IOLBF, 0);
  long n;
  while (scanf(" call %ld", &n) == 1) {
    pthread_t thread;
    long sums[2] = {0}, expected = 0;
    calls = n;
    pthread_create(&thread, 0, work, &sums[0]);
    work(&sums[1]);
    pthread_join(thread, 0);
    for (long i = 0; i < n; i++) expected += i + 1 + i - 2 - i + i * 77777 + 123456789 + i;
    puts(sums[0] == expected && sums[1] == expected ? "called" : "WRONG");
  }
  return 0;
}
