// Allocates, frees, and keeps memory, by one command per line on stdin, and answers each with a line:
//     keep N      N times what the functions keeps_* keep, which is below
//     work N      N rounds on each thread, which free all that they allocate, also each other's
//     pool N      N blocks of 48 bytes from a pool of its own, of which every other one is put back
//     child       a child frees all that was kept, and ends
//     release     frees all that was kept
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "noinline.h"

enum { kMostKept = 1 << 20, kMostThreads = 64, kShared = 256 };
static void* kept[kMostKept];
static size_t kept_count;

// The compiler must not see that nothing uses a block.
static _Thread_local void* volatile seen;
static void* look(void* block) {
  seen = block;
  return seen;
}
static void keep(void* block) { kept[kept_count++ % kMostKept] = look(block); }

NOINLINE void keeps_malloc(void) {  // 100 bytes
  keep(malloc(100));
  free(look(malloc(30)));
}

NOINLINE void keeps_calloc(void) { keep(calloc(3, 50)); }  // 150

NOINLINE void keeps_realloc(void) {  // 3000
  void* block = look(malloc(10));
  block = look(realloc(block, 20));
  keep(realloc(block, 3000));
}

// The old block stays.
NOINLINE void keeps_failed(void) {  // 40
  void* block = look(malloc(40));
  volatile size_t size = PTRDIFF_MAX;
  if (realloc(block, size) != NULL) abort();
  keep(block);
}

NOINLINE void keeps_null(void) { keep(realloc(look(NULL), 77)); }  // 77

NOINLINE void keeps_nothing(void) {
  void* block = look(malloc(50));
  volatile size_t size = 0;
  free(look(realloc(block, size)));
}

NOINLINE void keeps_array(void) { keep(reallocarray(look(malloc(8)), 11, 13)); }  // 143

NOINLINE void keeps_aligned(void) {  // 5 blocks of 640 + 512 + 96 + 70 + 80 = 1398
  void* block;
  if (posix_memalign(&block, 64, 640) != 0) abort();
  keep(block);
  keep(aligned_alloc(256, 512));
  keep(memalign(32, 96));
#ifdef __GLIBC__
  keep(valloc(70));
  keep(pvalloc(80));
#endif
}

static void keep_all(void) {
  keeps_malloc();
  keeps_calloc();
  keeps_realloc();
  keeps_failed();
  keeps_null();
  keeps_nothing();
  keeps_array();
  keeps_aligned();
}

static void release(void) {
  for (size_t i = 0; i < kept_count; i++) free(kept[i]);
  kept_count = 0;
}

// A pool of blocks that it gets at once.
static char pool[48 * 10000];
static size_t from_pool;
static void* put_back[10000];
static size_t put_back_count;
struct pool {
  size_t size;
};
NOINLINE void* pool_get(struct pool* of, size_t size) {
  if (put_back_count != 0) return put_back[--put_back_count];
  if (size != of->size || from_pool + size > sizeof pool) return NULL;
  from_pool += size;
  return look(pool + from_pool - size);
}
NOINLINE void pool_put(struct pool* of, void* block) {
  (void)of;
  put_back[put_back_count++] = block;
}

static void use_pool(long rounds) {
  struct pool of = {48};
  for (long i = 0; i < rounds; i++) {
    void* block = pool_get(&of, 48);
    if (i % 2 == 1) pool_put(&of, block);
  }
}

// Threads exchange blocks, so most are freed by another thread than that which has got them.
static _Atomic(void*) shared[kShared];
static long rounds_each;
static void* work(void* number) {
  unsigned random = (unsigned)(uintptr_t)number * 2654435761U + 1;
  for (long i = 0; i < rounds_each; i++) {
    random = random * 1664525U + 1013904223U;
    void* block = look(malloc(random >> 16 & 511));
    if (random >> 8 & 1) block = look(realloc(block, (random >> 12 & 1023) + 1));
    free(atomic_exchange(&shared[random >> 24], block));
  }
  return NULL;
}

static void work_on_threads(int threads, long rounds) {
  pthread_t ids[kMostThreads];
  rounds_each = rounds;
  for (int i = 0; i < threads; i++) pthread_create(&ids[i], 0, work, (void*)(uintptr_t)i);
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  for (int i = 0; i < kShared; i++) free(atomic_exchange(&shared[i], NULL));
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 4;
  if (threads < 1 || threads > kMostThreads) return 2;
  char line[64], word[32];
  setvbuf(stdout, 0, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin) != NULL) {
    long n = 0;
    if (sscanf(line, "%31s %ld", word, &n) < 1) continue;
    if (!strcmp(word, "keep"))
      for (long i = 0; i < n; i++) keep_all();
    if (!strcmp(word, "work")) work_on_threads(threads, n);
    if (!strcmp(word, "pool")) use_pool(n);
    if (!strcmp(word, "release")) release();
    if (!strcmp(word, "child")) {
      const pid_t child = fork();
      if (child == 0) {
        release();
        _exit(0);
      }
      waitpid(child, NULL, 0);
    }
    puts(word);
  }
  return 0;
}
