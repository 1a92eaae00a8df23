// Calls mill() for the seeds from 0 on, by one command per line on stdin:
//     mill N         N times, spread over all threads, this one first
//     spin           repeatedly, on all threads
//     rest           ends that
//     ready          nothing
// Answers each with a line; with WRONG if a result differs from that without probes.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long mill(long seed);

enum { kSeeds = 200, kMostThreads = 64 };
static long expected[kSeeds];
static int threads = 1;
static long calls_each;
static atomic_int spinning;

static long wrong_in_calls(long first, long calls) {
  long wrong = 0;
  for (long i = first; i < first + calls; i++) wrong += mill(i % kSeeds) != expected[i % kSeeds];
  return wrong;
}

static void* milling(void* first) { return (void*)wrong_in_calls((long)first, calls_each); }

static void* until_rest(void* unused) {
  (void)unused;
  long wrong = 0;
  while (spinning) wrong += wrong_in_calls(0, kSeeds);
  return (void*)wrong;
}

static pthread_t ids[kMostThreads];

static void join(int first, long wrong, const char* answer) {
  for (int i = first; i < threads; i++) {
    void* result;
    pthread_join(ids[i], &result);
    wrong += (long)result;
  }
  printf("%s\n", wrong == 0 ? answer : "WRONG");
}

int main(int argc, char** argv) {
  if (argc > 1) threads = atoi(argv[1]);
  if (threads < 1 || threads > kMostThreads) return 2;
  char word[32];
  long n;
  setvbuf(stdout, 0, _IOLBF, 0);
  for (long i = 0; i < kSeeds; i++) expected[i] = mill(i);
  while (scanf("%31s", word) == 1) {
    if (!strcmp(word, "ready")) puts("ready");
    if (!strcmp(word, "spin")) {
      spinning = 1;
      for (int i = 0; i < threads; i++) pthread_create(&ids[i], 0, until_rest, 0);
      puts("spinning");
    }
    if (!strcmp(word, "rest")) {
      spinning = 0;
      join(0, 0, "rested");
    }
    if (!strcmp(word, "mill") && scanf("%ld", &n) == 1) {
      calls_each = n / threads;
      for (long i = 1; i < threads; i++)
        pthread_create(&ids[i], 0, milling, (void*)(i * calls_each));
      join(1, wrong_in_calls(0, calls_each), "milled");
    }
  }
  return 0;
}
