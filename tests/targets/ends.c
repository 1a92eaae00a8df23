// A process that ends in the way that its first argument says, while as many threads as its second
// says are in waits(). Before that, each of them has called work() as often as the third
// says. It begins when a line comes, and ends by itself; what it executes is the rest of its
// arguments.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "noinline.h"

static atomic_int waiting;
static char** command;
static void* volatile leaked;

NOINLINE int work(int number) {
  __asm__ volatile("" : "+r"(number));
  return number + 1;
}

NOINLINE void waits(void) {
  ++waiting;
  for (;;) pause();
}

static void* work_and_wait(void* calls) {
  for (int i = 0; i < *(int*)calls; ++i) work(i);
  waits();
  return NULL;
}

static void* end_all(void* unused) {
  (void)unused;
  syscall(SYS_exit_group, 0);
  return NULL;
}

static void* execute(void* unused) {
  (void)unused;
  execv(command[0], command);
  return NULL;
}

static void start(void* (*run)(void*), void* argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, argument) != 0) exit(3);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const char* const how = argv[1];
  const int threads = atoi(argv[2]);
  int calls = atoi(argv[3]);
  command = argv + 4;
  printf("ready\n");
  fflush(stdout);
  char line[16];
  if (fgets(line, sizeof line, stdin) == NULL) return 2;
  for (int i = 0; i < threads; ++i) start(work_and_wait, &calls);
  while (waiting != threads) sched_yield();
  if (strcmp(how, "return") == 0) return 0;
  if (strcmp(how, "leak") == 0) {
    leaked = malloc(100);
    leaked = NULL;
    return 0;
  }
  if (strcmp(how, "_exit") == 0) _exit(0);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "exec") == 0) execute(NULL);
  if (strcmp(how, "exec-in-thread") == 0) start(execute, NULL);
  if (strcmp(how, "exit-in-thread") == 0) start(end_all, NULL);
  if (strcmp(how, "leaderless") == 0) {
    start(end_all, NULL);
    pthread_exit(NULL);
  }
  if (strncmp(how, "signal", 6) == 0) raise(atoi(how + 6));
  for (;;) pause();
}
