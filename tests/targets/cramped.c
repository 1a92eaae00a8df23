// Calls the functions of cramped.S from several threads. `cramped THREADS CALLS`. Prints each one's
// sum of what they return, and, with a third argument, in how many of the calls the semaphore of
// cramped:back was raised.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

long before(long), three(long), four(long), behind(long);
extern volatile unsigned short back_semaphore;
static long calls, raised;

static void* work(void* sum) {
  for (long i = 0; i < calls; i++) {
    if (back_semaphore != 0) __atomic_fetch_add(&raised, 1, __ATOMIC_RELAXED);
    *(long*)sum += before(i) + three(i) + four(i) + behind(i);
  }
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
  if (argc > 3) printf("raised %ld now %d\n", raised, back_semaphore);
}
