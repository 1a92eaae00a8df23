// Loads and unloads libraries (plugin.c), by one command per line on stdin:
//     load PATH        dlopen
//     space PATH       dlmopen, in a namespace of its own
//     call N           plugin_main(N) of the library loaded last
//     unload           that library
//     cycle PATH N     load, call 10, unload: N times
//     fork PATH N      the same in a forked child
//     stay             forks a child that keeps the library loaded last
//     both PATH        forks a child that stays; loads the library, and then the child loads it
//     come N           that child calls plugin_main(N), and ends
//     go PATH          starts cycles on another thread
//     check            stops them, and checks that nothing is loaded
//     vfork FIFO       a thread waits for its vfork child, until FIFO is written to
//     join             waits until that thread has gone on
// Answers each with a line: its first word, or WRONG. Ends at the end of its input.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "noinline.h"

static void* loaded;

static int load(const char* path) {
  loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return loaded != 0;
}

static int space(const char* path) {
#ifdef __GLIBC__
  loaded = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
#else
  loaded = 0;
#endif
  return loaded != 0;
}

NOINLINE int call(long n) {
  long (*const plugin_main)(long) = (long (*)(long))dlsym(loaded, "plugin_main");
  return plugin_main && plugin_main(n) == n;
}

static int unload(void) {
  return dlclose(loaded) == 0;
}

static int cycle(const char* path, long n) {
  for (long i = 0; i < n; i++)
    if (!load(path) || !call(10) || !unload()) return 0;
  return 1;
}

static int in_child(const char* path, long n) {
  int status = 1;
  const pid_t child = fork();
  if (child == 0) _exit(!cycle(path, n));
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static pid_t staying;
static int to_staying[2];
static const char* staying_path;

static int stay(void) {
  if (pipe(to_staying) != 0) return 0;
  staying = fork();
  if (staying != 0) {
    close(to_staying[0]);
    return staying > 0;
  }
  close(to_staying[1]);
  long n;
  if (!loaded && (read(to_staying[0], &n, sizeof n) != sizeof n || !load(staying_path))) _exit(1);
  _exit(read(to_staying[0], &n, sizeof n) != sizeof n || !call(n));
}

static int both(const char* path) {
  loaded = 0;
  staying_path = path;
  const long now = 0;
  return stay() && load(path) && write(to_staying[1], &now, sizeof now) == sizeof now;
}

static int come(long n) {
  int status = 1;
  return write(to_staying[1], &n, sizeof n) == sizeof n && close(to_staying[1]) == 0 &&
         waitpid(staying, &status, 0) == staying && status == 0;
}

static pthread_t cycler;
static volatile int cycling;
static char cycled_path[4096];

static void* cycle_on(void* unused) {
  int right = 1;
  do right = cycle(cycled_path, 1) && right;
  while (cycling);
  return right ? "right" : unused;
}

static int go(const char* path) {
  if (cycling) return 1;
  strcpy(cycled_path, path);
  cycling = 1;
  return pthread_create(&cycler, 0, cycle_on, 0) == 0;
}

static int check(void) {
  void* right = "right";
  if (cycling) {
    cycling = 0;
    pthread_join(cycler, &right);
  }
  return right != 0;
}

static pthread_t waiter;
static volatile int child_runs;
static char fifo[4096];

static void* wait_for_child(void* unused) {
  int status;
  const pid_t child = vfork();
  if (child == 0) {
    child_runs = 1;
    _exit(open(fifo, O_RDONLY) < 0);
  }
  return waitpid(child, &status, 0) == child && status == 0 ? "right" : unused;
}

static int hold(void) {
  child_runs = 0;
  if (pthread_create(&waiter, 0, wait_for_child, 0) != 0) return 0;
  while (!child_runs) usleep(100);
  return 1;
}

static int join(void) {
  void* right = 0;
  return pthread_join(waiter, &right) == 0 && right;
}

int main(void) {
  char word[32], path[4096];
  long n;
  setvbuf(stdout, 0, _IOLBF, 0);
  while (scanf("%31s", word) == 1) {
    int right = 0;
    if (!strcmp(word, "ready")) right = 1;
    if (!strcmp(word, "load")) right = scanf("%4095s", path) == 1 && load(path);
    if (!strcmp(word, "space")) right = scanf("%4095s", path) == 1 && space(path);
    if (!strcmp(word, "call")) right = scanf("%ld", &n) == 1 && call(n);
    if (!strcmp(word, "unload")) right = unload();
    if (!strcmp(word, "cycle")) right = scanf("%4095s %ld", path, &n) == 2 && cycle(path, n);
    if (!strcmp(word, "fork")) right = scanf("%4095s %ld", path, &n) == 2 && in_child(path, n);
    if (!strcmp(word, "stay")) right = stay();
    if (!strcmp(word, "both")) right = scanf("%4095s", path) == 1 && both(path);
    if (!strcmp(word, "come")) right = scanf("%ld", &n) == 1 && come(n);
    if (!strcmp(word, "go")) right = scanf("%4095s", path) == 1 && go(path);
    if (!strcmp(word, "check")) right = check();
    if (!strcmp(word, "vfork")) right = scanf("%4095s", fifo) == 1 && hold();
    if (!strcmp(word, "join")) right = join();
    puts(right ? word : "WRONG");
  }
  return 0;
}
