// Calls the functions of cramped.S from several threads. `cramped THREADS CALLS`
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

long before(long), three(long), four(long), behind(long);
static long calls;

static void* work(void* sum) {
  for (long i = 0; i < calls; i++) *(long*)sum += before(i) + three(i) + four(i) + behind(i);
  return 0;
}

int main(int argc, char** argv) {
  enum { kMost = 16 };
  pthread_t threads[kMost];
  long sums[kMost] = {0};
  const int count = argc > 1 && atoi(argv[1]) < kMost ? atoi(argv[1]) : kMost;
  calls = argc > 2 ? atol(argv[2]) : 1000;
  for (int i = 0; i < count; i++) pthread_create(&threads[i], 0, work, &sums[i]);
  for (int i = 0; i < count; i++) pthread_join(threads[i], 0);
  for (int i = 0; i < count; i++) printf("%ld\n", sums[i]);
}
