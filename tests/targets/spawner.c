// Starts children of every kind for each byte on stdin, and then prints what they found in their
// rseq areas. "shared" is 1 if the area of all children in this memory named no CPU; "own" is 1 if
// those with an area of their own, a thread's and a forked child's, named one; and "parent" is 1 if
// this thread's named its CPU after each child. With "h" there is another child before these, which
// waits for a byte. Ends at the end of its input.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/rseq.h>
#include <sys/wait.h>
#include <unistd.h>

#include "noinline.h"

enum { kCalls = 10 };

#define COUNTED(name)               \
  NOINLINE int name(int x) {        \
    __asm__ volatile("" : "+r"(x)); \
    return x + 1;                   \
  }
COUNTED(in_vfork)
COUNTED(in_nested)
COUNTED(in_clone)
COUNTED(in_thread)
COUNTED(in_fork)

static volatile int shared, own, parent;

static volatile struct rseq* area(void) {
  return (volatile struct rseq*)((char*)__builtin_thread_pointer() + __rseq_offset);
}

static int names_cpu(void) {
  return (int)area()->cpu_id >= 0;
}

static void call(int (*f)(int)) {
  for (int i = 0; i < kCalls; i++) f(i);
}

static void look_after(void) {
  parent = parent && names_cpu() && area()->cpu_id == area()->cpu_id_start;
}

static void reap(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || status != 0) exit(1);
}

static void with_vfork(void) {
  const pid_t child = vfork();
  if (child == 0) {
    shared = shared && !names_cpu();
    call(in_vfork);
    const pid_t nested = vfork();
    if (nested == 0) {
      shared = shared && !names_cpu();
      call(in_nested);
      _exit(0);
    }
    shared = shared && !names_cpu();  // still
    call(in_nested);
    waitpid(nested, 0, 0);
    _exit(0);
  }
  look_after();
  reap(child);
}

static int cloned(void* unused) {
  (void)unused;
  shared = shared && !names_cpu();
  call(in_clone);
  return 0;
}

static void with_clone(void) {
  static char stack[65536] __attribute__((aligned(16)));
  const pid_t child = clone(cloned, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, 0);
  look_after();
  reap(child);
}

// The child calls the C library's execve.
static void with_spawn(void) {
  char* arguments[] = {"true", 0};
  char* environment[] = {0};
  pid_t child;
  if (posix_spawn(&child, "/bin/true", 0, 0, arguments, environment) != 0) exit(1);
  look_after();
  reap(child);
}

static void* thread(void* unused) {
  (void)unused;
  own = own && names_cpu();
  call(in_thread);
  return 0;
}

static void with_thread(void) {
  pthread_t one;
  pthread_create(&one, 0, thread, 0);
  pthread_join(one, 0);
  look_after();
}

static void with_fork(void) {
  const pid_t child = fork();
  if (child == 0) {
    call(in_fork);
    _exit(!names_cpu());
  }
  int status = 0;
  waitpid(child, &status, 0);
  own = own && status == 0;
  look_after();
}

// Until there is another byte.
static void with_held_vfork(void) {
  const pid_t child = vfork();
  if (child == 0) {
    char byte;
    if (read(0, &byte, 1) != 1) _exit(1);
    shared = shared && !names_cpu();
    call(in_vfork);
    _exit(0);
  }
  look_after();
  reap(child);
}

int main(void) {
  for (int c; (c = getchar()) != EOF;) {
    shared = own = parent = 1;
    if (c == 'h') with_held_vfork();
    with_vfork();
    with_clone();
    with_spawn();
    with_thread();
    with_fork();
    printf("shared %d own %d parent %d\n", shared, own, parent);
    fflush(stdout);
  }
  return 0;
}
