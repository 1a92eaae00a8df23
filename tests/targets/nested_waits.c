// Threads that wait in nested calls, each at a depth of its own. Usage: nested_waits THREADS
//
// Thread n is called waiter-n. It calls descend() n % 4 + 1 deep, and hold() from there. Before, it
// leaves a call of jumps() by longjmp. The first one runs, and has left no call; the others wait in
// the kernel. Reads lines, one after the other:
//     go         the threads start and wait; answers `THREAD TID FUNCTION BEFORE INSIDE` for each
//                call that is in flight then, and `waiting`. BEFORE and INSIDE are CLOCK_MONOTONIC,
//                in nanoseconds, in the caller, and in the function
//     release    all return, and the threads end; answers `released`
//     context    the first thread switches to a stack of the program's own, calls suspends() there,
//                and switches back in it; answers `switched`
//     dies       a thread ends in a call of ends(), without unwinding; answers `died`
//     fork       a child waits until this process ends; answers with its PID
// At the end of the file, it ends. The first thread reads each line in serve(), which main calls.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#ifdef __GLIBC__
#include <ucontext.h>
#endif
#include <unistd.h>

#include "noinline.h"

enum { MOST_THREADS = 64, MOST_CALLS = 8 };

struct call {
  const char* function;
  long before, inside;
};
static struct waiter {
  long number;
  int tid, calls;
  struct call call[MOST_CALLS];
} waiters[MOST_THREADS];
static pthread_t threads[MOST_THREADS];
static int thread_count;
static atomic_int waiting;
static atomic_bool is_released;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static _Thread_local jmp_buf back;

static inline long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

static inline void note(struct waiter* self, const char* function, long before) {
  self->call[self->calls++] = (struct call){function, before, now()};
}

NOINLINE long hold(struct waiter* self, long before) {
  note(self, "hold", before);
  ++waiting;
  if (self->number == 0) {
    while (!is_released) {
    }
    return 1;
  }
  pthread_mutex_lock(&lock);
  while (!is_released) pthread_cond_wait(&released, &lock);
  pthread_mutex_unlock(&lock);
  return 1;
}

NOINLINE long descend(struct waiter* self, long depth, long before) {
  note(self, "descend", before);
  long below = depth == 1 ? hold(self, now()) : descend(self, depth - 1, now());
  __asm__ volatile("" : "+r"(below));  // or the compiler makes a loop of it
  return 1 + below;
}

NOINLINE long jumps(long x) {
  if (x >= 0) longjmp(back, 1);
  return x;
}

static void* work(void* argument) {
  struct waiter* const self = argument;
  self->tid = (int)syscall(SYS_gettid);
  self->calls = 0;
  char name[16];
  snprintf(name, sizeof name, "waiter-%ld", self->number);
  pthread_setname_np(pthread_self(), name);
  if (self->number != 0 && setjmp(back) == 0) jumps(self->number);
  const long depth = self->number % 4 + 1;
  if (descend(self, depth, now()) != depth + 1) abort();
  return NULL;
}

static void go(void) {
  waiting = 0;
  is_released = 0;
  for (long i = 0; i < thread_count; ++i) {
    waiters[i].number = i;
    if (pthread_create(&threads[i], NULL, work, &waiters[i]) != 0) abort();
  }
  while (waiting != thread_count) usleep(1000);
  for (long i = 0; i < thread_count; ++i)
    for (int c = 0; c < waiters[i].calls; ++c)
      printf("%ld %d %s %ld %ld\n", i, waiters[i].tid, waiters[i].call[c].function,
             waiters[i].call[c].before, waiters[i].call[c].inside);
}

static void release(void) {
  pthread_mutex_lock(&lock);
  is_released = 1;
  pthread_cond_broadcast(&released);
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < thread_count; ++i) pthread_join(threads[i], NULL);
}

#ifdef __GLIBC__
static ucontext_t first_context, other_context;

NOINLINE void suspends(void) {
  swapcontext(&other_context, &first_context);
  __asm__ volatile("" ::: "memory");  // no jump to swapcontext, which cannot be timed
}

static void on_context(void) {
  suspends();
  abort();
}

// Another mapping follows right above, so that the stack's end is not the mapping's.
static void switch_context(void) {
  enum { SIZE = 1 << 16 };
  char* const stack =
      mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED || getcontext(&other_context) != 0) abort();
  other_context.uc_stack.ss_sp = stack;
  other_context.uc_stack.ss_size = SIZE;
  makecontext(&other_context, on_context, 0);
  swapcontext(&first_context, &other_context);
}
#else
static void switch_context(void) {}
#endif

NOINLINE void ends(void) {
  syscall(SYS_exit, 0);
}

// The child stays in this call, and has copies of all others, of threads that it does not have.
NOINLINE void fork_in_call(void) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  printf("%d\n", (int)child);
}

static void* die(void* unused) {
  ends();
  return unused;
}

NOINLINE int serve(char* line, int size) {
  if (fgets(line, size, stdin) == NULL) return 0;
  line[strcspn(line, "\n")] = 0;
  return 1;
}

int main(int argc, char** argv) {
  thread_count = argc > 1 ? atoi(argv[1]) : 1;
  if (thread_count < 0 || thread_count > MOST_THREADS) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  char line[64];
  while (serve(line, sizeof line)) {
    if (strcmp(line, "go") == 0) {
      go();
      puts("waiting");
    } else if (strcmp(line, "release") == 0) {
      release();
      puts("released");
    } else if (strcmp(line, "context") == 0) {
      switch_context();
      puts("switched");
    } else if (strcmp(line, "dies") == 0) {
      pthread_t thread;
      if (pthread_create(&thread, NULL, die, NULL) != 0 || pthread_join(thread, NULL) != 0) abort();
      puts("died");
    } else if (strcmp(line, "fork") == 0) {
      fork_in_call();
    } else {
      puts("ready");
    }
  }
  return 0;
}
