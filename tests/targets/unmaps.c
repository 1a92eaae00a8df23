// Hands out addresses in memory that other threads take away and map again, in all ways that there
// are. For each line of its input, "MILLISECONDS WAYS", it does so for as long, and answers with
// the number of calls of take() so far. WAYS are letters:
//     m  munmap(), and mmap() at the same place        s  the same by syscall()
//     f  mmap() over it, without rights                p  mprotect()
//     r  mremap() to another place, and back           b  brk(), up and down
//     g  guard pages (MADV_GUARD_INSTALL)              t  stacks of threads that come and go
//     h  blocks of malloc(), large and small           c  a file that is cut off
//     o  not at all                                    x  code of another file is mapped
//     e  memory for code comes, and goes
// No handler of SIGSEGV and SIGBUS is called: if one is, the program ends with status 9.
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "noinline.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

enum { kPage = 4096, kPages = 16, kReaders = 6, kWays = 13 };
static const char kLetters[] = "msfprbgthcoxe";

NOINLINE long take(const void* address) {
  __asm__ volatile("" : "+r"(address)::"memory");
  return (long)address;
}

static _Atomic int stop;
static _Atomic uint64_t takes;
// By way: where it has memory now.
static _Atomic uintptr_t places[kWays];
static char* areas[kWays];
static int file;

static void fail(const char* what) {
  perror(what);
  exit(3);
}

static void caught(int number) {
  (void)number;
  _exit(9);
}

static char* map(void* at, int more) {
  char* const got =
      mmap(at, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0);
  if (got == MAP_FAILED) fail("mmap");
  return got;
}

static void* short_thread(void* unused) {
  volatile uint64_t mine = 1;
  places[7] = (uintptr_t)&mine;
  (void)unused;
  return NULL;
}

static void change(int way, unsigned round) {
  char* const area = areas[way];
  char* const some = area + round % kPages * kPage;
  switch (kLetters[way]) {
    case 'm':
      munmap(some, kPage);
      break;
    case 's':
      syscall(SYS_munmap, some, kPage);
      break;
    case 'f':
      mmap(some, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      break;
    case 'p':
      mprotect(some, kPage, PROT_NONE);
      break;
    case 'r': {
      void* const moved =
          mremap(some, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, areas[0] - kPage);
      if (moved != MAP_FAILED) munmap(moved, kPage);
      break;
    }
    case 'b':
      if (brk(area + (kPages - 1 - round % kPages) * kPage)) fail("brk");
      break;
    case 'g':
      madvise(some, kPage, MADV_GUARD_INSTALL);
      break;
    case 't': {
      pthread_t thread;
      if (pthread_create(&thread, NULL, short_thread, NULL)) fail("pthread_create");
      pthread_join(thread, NULL);
      break;
    }
    case 'h': {
      void* const block = malloc((size_t)1 << (round % 22));
      places[way] = (uintptr_t)block;
      free(block);
      break;
    }
    case 'e':
      munmap(mmap(NULL, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), kPage);
      break;
    case 'x': {
      const int other = open("/bin/true", O_RDONLY);
      if (mmap(NULL, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, other, 0) == MAP_FAILED)
        fail("mmap");
      close(other);
      break;
    }
    case 'c':
      if (ftruncate(file, round % kPages * kPage)) fail("ftruncate");
      break;
  }
}

static void restore(int way) {
  switch (kLetters[way]) {
    case 'b':
      if (brk(areas[way] + kPages * kPage)) fail("brk");
      break;
    case 'g':
      madvise(areas[way], kPages * kPage, MADV_GUARD_REMOVE);
      break;
    case 'p':
      mprotect(areas[way], kPages * kPage, PROT_READ | PROT_WRITE);
      break;
    case 'c':
      if (ftruncate(file, kPages * kPage)) fail("ftruncate");
      break;
    case 'm':
    case 's':
    case 'f':
    case 'r':
      map(areas[way], MAP_FIXED);
      break;
  }
}

static void* reader(void* seed) {
  uint64_t random = (uintptr_t)seed * 77777 + 1;
  uint64_t done = 0;
  while (!stop) {
    for (int way = 0; way < kWays; ++way) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      const uintptr_t place = places[way];
      if (!place) continue;
      const int is_area = areas[way] != NULL;
      take((void*)(place + (is_area ? random % (kPages * kPage - 8) : 0)));
      ++done;
    }
  }
  takes += done;
  return NULL;
}

static long milliseconds;
static char ways[32];

static int is_mine(char letter, uintptr_t half) {
  const char* const at = strchr(kLetters, letter);
  return at && (uintptr_t)(at - kLetters) % 2 == half;
}

// Each of two threads has half of the ways.
static void* changer(void* argument) {
  const uintptr_t half = (uintptr_t)argument;
  struct timespec now, end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += milliseconds / 1000;
  end.tv_nsec += milliseconds % 1000 * 1000000;
  unsigned round = 0;
  do {
    for (int i = 0; i < kPages; ++i, ++round)
      for (const char* one = ways; *one; ++one)
        if (is_mine(*one, half)) change((int)(strchr(kLetters, *one) - kLetters), round * 7);
    for (const char* one = ways; *one; ++one)
      if (is_mine(*one, half)) restore((int)(strchr(kLetters, *one) - kLetters));
    // From time to time long enough for the controller to look at what is there.
    usleep(round % 512 ? 100 : 20000);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
  return NULL;
}

static void run(void) {
  pthread_t readers[kReaders], other;
  stop = 0;
  for (int way = 0; way < kWays; ++way)
    places[way] = areas[way] && strchr(ways, kLetters[way]) ? (uintptr_t)areas[way] : 0;
  for (uintptr_t i = 0; i < kReaders; ++i)
    if (pthread_create(&readers[i], NULL, reader, (void*)i)) fail("pthread_create");
  if (pthread_create(&other, NULL, changer, (void*)1)) fail("pthread_create");
  changer(NULL);
  pthread_join(other, NULL);
  stop = 1;
  for (int i = 0; i < kReaders; ++i) pthread_join(readers[i], NULL);
  printf("%lu\n", (unsigned long)takes);
  fflush(stdout);
}

int main(void) {
  signal(SIGSEGV, caught);
  signal(SIGBUS, caught);
  // What brk() moves here is not malloc()'s: that one has got all it needs.
  mallopt(M_MMAP_THRESHOLD, 65536);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  void* volatile enough = malloc(60000);
  free(enough);
  char* at =
      mmap(NULL, (kWays + 1) * 2 * kPages * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail("mmap");
  for (int way = 0; way < kWays; ++way) {
    at += 2 * kPages * kPage;
    if (strchr("msfprgo", kLetters[way]))
      memset(areas[way] = map(at, MAP_FIXED), 1, kPages * kPage);
  }
  file = memfd_create("unmaps", 0);
  if (file < 0 || ftruncate(file, kPages * kPage)) fail("memfd_create");
  areas[9] = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  areas[5] = sbrk(0);
  if (brk(areas[5] + kPages * kPage)) fail("brk");
  puts("ready");
  fflush(stdout);
  while (scanf("%ld %31s", &milliseconds, ways) == 2) run();
  return 0;
}
