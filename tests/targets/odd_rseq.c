// Two threads that call the same function; one of them has its rseq area at another address than
// glibc's. A line on stdin makes each of them call tick() 1,000 times, and is answered with "ok".
// Ends at the end of its input. First prints "usual" if the kernel does not accept another address.
#define _GNU_SOURCE
#include <linux/rseq.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "noinline.h"

#define SIGNATURE 0x53053053
#define UNREGISTER 1
#define GLIBC_SIZE 32

extern const ptrdiff_t __rseq_offset __attribute__((weak));

NOINLINE long tick(long x) {
  __asm__ volatile("" : "+r"(x));
  return x * 3 + 1;
}

static pthread_barrier_t turn;
static volatile long sums[2];

static void tick_often(int index) {
  for (long i = 0; i < 1000; i++) sums[index] += tick(i);
}

static char own_area[GLIBC_SIZE] __attribute__((aligned(32)));

static void* odd(void* unused) {
  (void)unused;
  char* usual = (char*)__builtin_thread_pointer() + __rseq_offset;
  const int moved = syscall(SYS_rseq, usual, GLIBC_SIZE, UNREGISTER, SIGNATURE) == 0 &&
                    syscall(SYS_rseq, own_area, GLIBC_SIZE, 0, SIGNATURE) == 0;
  if (!moved) puts("usual");
  for (;;) {
    pthread_barrier_wait(&turn);
    tick_often(1);
    pthread_barrier_wait(&turn);
  }
}

int main(void) {
  char line[16];
  pthread_t other;
  setvbuf(stdout, 0, _IOLBF, 0);
  pthread_barrier_init(&turn, 0, 2);
  if (pthread_create(&other, 0, odd, 0) != 0) return 2;
  while (fgets(line, sizeof line, stdin)) {
    pthread_barrier_wait(&turn);
    tick_often(0);
    pthread_barrier_wait(&turn);
    puts(sums[0] == sums[1] ? "ok" : "WRONG");
  }
  return 0;
}
