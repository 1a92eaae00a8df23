// Threads that end in the midst of functions. For each line "HOW N" on stdin it starts N threads
// one after the other, each of which calls leaves() and ends there: by the system call ("exit"), by
// pthread_exit() ("pthread_exit"), cancelled ("cancel"), or by returning ("return"). It waits for
// each, and answers "ended". "keep N" starts N threads that stay in stays(), and answers "ended"
// when they are there; "end" ends these by the system call. "clone 1" starts a thread without the
// C library, whose first function is stays_first(), and answers when it is there; "end" has this
// function return, which ends the thread.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "noinline.h"

static char how[32];
static atomic_int staying, may_go;

NOINLINE void leaves(void) {
  if (strcmp(how, "exit") == 0) syscall(SYS_exit, 0);
  if (strcmp(how, "pthread_exit") == 0) pthread_exit(NULL);
  if (strcmp(how, "cancel") == 0) {
    pthread_cancel(pthread_self());
    pthread_testcancel();
  }
  __asm__ volatile("");
}

NOINLINE void stays(void) {
  ++staying;
  while (!may_go) usleep(1000);
  --staying;
  syscall(SYS_exit, 0);
}

NOINLINE void* leave(void* unused) {
  leaves();
  __asm__ volatile("");
  return unused;
}

NOINLINE void* stay(void* unused) {
  stays();
  __asm__ volatile("");
  return unused;
}

NOINLINE int stays_first(void* unused) {
  (void)unused;
  ++staying;
  while (!may_go) sched_yield();
  --staying;
  return 0;
}

static char stack_of_first[64 << 10] __attribute__((aligned(16)));

int main(void) {
  char line[64];
  int count = 0;
  pthread_t thread;
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (sscanf(line, "keep %d", &count) == 1) {
      may_go = 0;
      for (int i = 0; i < count; ++i) {
        pthread_create(&thread, NULL, stay, NULL);
        pthread_detach(thread);
      }
      while (staying != count) usleep(1000);
    } else if (sscanf(line, "clone %d", &count) == 1) {
      may_go = 0;
      clone(stays_first, stack_of_first + sizeof stack_of_first,
            CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, NULL);
      while (staying != count) usleep(1000);
    } else if (strncmp(line, "end", 3) == 0) {
      may_go = 1;
      while (staying != 0) usleep(1000);
    } else if (sscanf(line, "%31s %d", how, &count) == 2) {
      for (int i = 0; i < count; ++i) {
        pthread_create(&thread, NULL, leave, NULL);
        pthread_join(thread, NULL);
      }
    }
    printf("ended\n");
    fflush(stdout);
  }
  return 0;
}
