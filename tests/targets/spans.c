// Calls its points in a given order, exactly as often as requested, by one command per line on
// stdin, each of which it answers with a line:
//     pairs N        begin() and end(), N times in each of its threads
//     begins N       begin() N times
//     ends N         end() N times
//     turns N        turn() N times
//     ring N         first(), second(), third(), N times
//     heirs N        N threads, one after the other on one stack: end, begin, end, and a begin
//                    without an end
//     short N        N threads, one after the other, each on a stack of its own: begin, end
//     handler        begin, and in a signal handler begin and end, then end
//     child          forks after a begin: the child ends, begins and ends; then the parent ends
//     nap MS         begin, MS milliseconds, end
//     spin US        begin, US microseconds of work, end; 100 times
//     rest MS        begin and end, MS milliseconds on the same CPU, begin and end
//     move MS        the same, but the second time on another CPU
//     roam N         N times begin on one CPU and end on another
//     held           within the function held(), which returns after one more line
//     deep N         held_by(N), a recursion N calls deep
//     ready          nothing
// Ends at the end of its input, with status 0.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "noinline.h"

#define POINT(name)                 \
  NOINLINE long name(long x) {      \
    __asm__ volatile("" : "+r"(x)); \
    return x * 3 + 1;               \
  }
POINT(begin)
POINT(end)
POINT(turn)
POINT(first)
POINT(second)
POINT(third)

static volatile long used;
static cpu_set_t allowed;  // of the process, when it started
static int threads = 1;

static void* pairs(void* n) {
  long sum = 0;
  for (long i = 0; i < (long)n; i++) sum += begin(i) + end(i);
  return (void*)sum;
}

static void pairs_in_all(long n) {
  pthread_t ids[64];
  for (int i = 1; i < threads; i++) pthread_create(&ids[i], 0, pairs, (void*)n);
  pairs((void*)n);
  for (int i = 1; i < threads; i++) pthread_join(ids[i], 0);
}

static void* heir(void* unused) {
  used += end(1) + begin(2) + end(3) + begin(4);
  return unused;
}

static void* short_life(void* unused) {
  used += begin(1) + end(2);
  return unused;
}

enum { kStack = 1 << 15, kStacks = 40000 };

static void one_after_the_other(long n, void* (*life)(void*), int each_its_own) {
  static char* stacks;
  static long next;
  if (!stacks)
    stacks = mmap(0, (size_t)kStack * kStacks, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (long i = 0; i < n; i++) {
    pthread_t thread;
    pthread_attr_t attributes;
    char* stack = stacks + (size_t)(next % kStacks) * kStack;
    next += each_its_own;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, kStack);
    if (pthread_create(&thread, &attributes, life, 0)) abort();
    pthread_join(thread, 0);
    if (each_its_own) madvise(stack, kStack, MADV_DONTNEED);
  }
}

static void on_signal(int signal) {
  used += begin(signal) + end(signal);
}

static int child_is_well(void) {
  int status = 1;
  begin(1);
  const pid_t child = fork();
  if (child == 0) {
    used += end(1) + begin(2) + end(3);
    _exit(0);
  }
  waitpid(child, &status, 0);
  end(2);
  return status == 0;
}

static void sleep_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, 0);
}

static void nap(long ms) {
  begin(ms);
  sleep_ms(ms);
  end(ms);
}

static void spin(long us) {
  for (int i = 0; i < 100; i++) {
    struct timespec from, now;
    begin(us);
    clock_gettime(CLOCK_MONOTONIC, &from);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < us * 1000);
    end(us);
  }
}

// The first or the last CPU that the process may use.
static void go_to_cpu(int last) {
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &allowed)) {
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      if (!last) break;
    }
  sched_setaffinity(0, sizeof one, &one);
}

static void rest(long ms, int moves) {
  go_to_cpu(0);
  used += begin(ms) + end(ms);
  sleep_ms(ms);
  go_to_cpu(moves);
  used += begin(ms) + end(ms);
}

static void roam(long n) {
  for (long i = 0; i < n; i++) {
    go_to_cpu(0);
    used += begin(i);
    go_to_cpu(1);
    used += end(i);
  }
}

NOINLINE long held(long x) {
  char line[64];
  puts("held");
  if (fgets(line, sizeof line, stdin)) x++;
  return x;
}

NOINLINE long held_by(long n) {
  long deeper = n <= 1 ? 0 : held_by(n - 1);
  __asm__ volatile("" : "+r"(deeper));  // not made into a loop
  return deeper + 1;
}

int main(int argc, char** argv) {
  if (argc > 1) threads = atoi(argv[1]);
  sched_getaffinity(0, sizeof allowed, &allowed);
  char word[32], line[64];
  signal(SIGUSR1, on_signal);
  setvbuf(stdout, 0, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin)) {
    long n = 0;
    int is_well = 1;
    if (sscanf(line, "%31s %ld", word, &n) < 1) continue;
    if (!strcmp(word, "pairs")) pairs_in_all(n);
    for (long i = 0; i < n && !strcmp(word, "begins"); i++) used += begin(i);
    for (long i = 0; i < n && !strcmp(word, "ends"); i++) used += end(i);
    for (long i = 0; i < n && !strcmp(word, "turns"); i++) used += turn(i);
    for (long i = 0; i < n && !strcmp(word, "ring"); i++) used += first(i) + second(i) + third(i);
    if (!strcmp(word, "heirs")) one_after_the_other(n, heir, 0);
    if (!strcmp(word, "short")) one_after_the_other(n, short_life, 1);
    if (!strcmp(word, "handler")) {
      used += begin(1);
      raise(SIGUSR1);
      used += end(1);
    }
    if (!strcmp(word, "child")) is_well = child_is_well();
    if (!strcmp(word, "nap")) nap(n);
    if (!strcmp(word, "spin")) spin(n);
    if (!strcmp(word, "rest")) rest(n, 0);
    if (!strcmp(word, "move")) rest(n, 1);
    if (!strcmp(word, "roam")) roam(n);
    if (!strcmp(word, "held")) used += held(n);
    if (!strcmp(word, "deep")) is_well = held_by(n) == n;
    puts(is_well ? "done" : "WRONG");
  }
  return 0;
}
