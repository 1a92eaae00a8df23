// Takes locks, by one command per line on stdin, and answers each with a line:
//     hold N MS   N times, one thread holds `held_lock` for MS ms, and another one waits for it
//     quick N     N times, one thread takes `quick_lock`, which is free
//     nest N      N times, one thread takes `nested_lock` twice; it is recursive
//     try N       N times, one thread holds `held_lock`; another one tries, and waits 1 ms for it
//     share N     N times, two threads read under `shared_lock` at once, and then one writes
//     wait N MS   N times, one thread waits for `condition`; another one signals it after MS ms
//     own N       N times, own_lock(1, `own`) and own_unlock(1, `own`)
//     invert      one thread takes `first_lock` and `second_lock`, and later another one takes them
//                 the other way round
//     ring        three threads in turn take two locks of `ring` each: one, and the next one
// After these commands some threads never come back:
//     deadlock    two threads take `first_lock` and `second_lock` as in `invert`, but at once
//     round       three threads take the locks of `ring` as in `ring`, but at once
//     mixed       one thread has `wait_lock` and wants to write under `shared_lock`; another one
//                 writes under that and wants `wait_lock`
//     reader      one thread reads under `read_lock`, and another one wants to write
//     again       one thread takes `again_lock` twice
//     orphan      one thread takes `orphan_lock` and ends, and another one wants it
//     hand_over   one thread hands `robust_lock` over to a second one, which keeps it, while a
//                 third one, which has `third_lock`, wants it, too; then the first one wants
//                 `third_lock`
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "noinline.h"

pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER, quick_lock = PTHREAD_MUTEX_INITIALIZER,
                first_lock = PTHREAD_MUTEX_INITIALIZER, second_lock = PTHREAD_MUTEX_INITIALIZER,
                again_lock = PTHREAD_MUTEX_INITIALIZER, orphan_lock = PTHREAD_MUTEX_INITIALIZER,
                wait_lock = PTHREAD_MUTEX_INITIALIZER, third_lock = PTHREAD_MUTEX_INITIALIZER,
                nested_lock, robust_lock;
pthread_mutex_t ring[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                           PTHREAD_MUTEX_INITIALIZER};
pthread_rwlock_t shared_lock = PTHREAD_RWLOCK_INITIALIZER;
pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
int own;
pthread_rwlock_t read_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier, barrier_of_three;
static long times, milliseconds;
static int is_signalled;

static void pass_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static void meet(void) {
  pthread_barrier_wait(&barrier);
}

// Returns once a thread sleeps until the mutex is free.
static void until_awaited(pthread_mutex_t* mutex) {
#ifdef MUSL
  const int waiters = 2, none = 0;
  while (__atomic_load_n((volatile int*)mutex + waiters, __ATOMIC_RELAXED) == none) sched_yield();
#else
  const int is_awaited = 2;
  while (__atomic_load_n((volatile int*)mutex, __ATOMIC_RELAXED) != is_awaited) sched_yield();
#endif
}
// The same of a thread that has told its TID: it sleeps in the kernel.
static void until_asleep(pid_t* thread) {
  char path[64], line[256];
  for (;;) {
    sched_yield();
    snprintf(path, sizeof path, "/proc/self/task/%d/stat",
             __atomic_load_n(thread, __ATOMIC_RELAXED));
    FILE* file = fopen(path, "r");
    if (file == NULL) continue;
    const char* end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    if (end != NULL && end[2] == 'S') return;
  }
}

NOINLINE void holds(void) {
  pthread_mutex_lock(&held_lock);
  meet();
  until_awaited(&held_lock);
  pass_ms(milliseconds);
  pthread_mutex_unlock(&held_lock);
  meet();
}
NOINLINE void waits(void) {
  meet();
  pthread_mutex_lock(&held_lock);
  pthread_mutex_unlock(&held_lock);
  meet();
}

NOINLINE void tries(void) {
  meet();
  if (pthread_mutex_trylock(&held_lock) != EBUSY) abort();
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  if (pthread_mutex_timedlock(&held_lock, &until) != ETIMEDOUT) abort();
  meet();
}
NOINLINE void holds_for_tries(void) {
  pthread_mutex_lock(&held_lock);
  meet();
  meet();
  pthread_mutex_unlock(&held_lock);
}

NOINLINE void reads(void) {
  pthread_rwlock_rdlock(&shared_lock);
  meet();
  pthread_rwlock_unlock(&shared_lock);
  meet();
}
NOINLINE void reads_and_waits(void) {
  reads();
  meet();
}
NOINLINE void reads_and_writes(void) {
  reads();
  pthread_rwlock_wrlock(&shared_lock);
  pthread_rwlock_unlock(&shared_lock);
  meet();
}

NOINLINE void waits_for_signal(void) {
  pthread_mutex_lock(&wait_lock);
  meet();
  while (!is_signalled) pthread_cond_wait(&condition, &wait_lock);
  is_signalled = 0;
  pthread_mutex_unlock(&wait_lock);
  meet();
}
// It gets the lock once the other thread waits.
NOINLINE void signals(void) {
  meet();
  pthread_mutex_lock(&wait_lock);
  pass_ms(milliseconds);
  is_signalled = 1;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&wait_lock);
  meet();
}

NOINLINE void takes_in_order(pthread_mutex_t* first, pthread_mutex_t* second,
                             pthread_barrier_t* between) {
  pthread_mutex_lock(first);
  if (between != NULL) pthread_barrier_wait(between);
  pthread_mutex_lock(second);
  pthread_mutex_unlock(second);
  pthread_mutex_unlock(first);
}
static void* goes_forwards(void* between) {
  takes_in_order(&first_lock, &second_lock, between);
  return NULL;
}
static void* goes_backwards(void* between) {
  takes_in_order(&second_lock, &first_lock, between);
  return NULL;
}
static pthread_barrier_t* between_ring;  // NULL: each thread goes round alone
static void* goes_round(void* number) {
  const uintptr_t i = (uintptr_t)number;
  takes_in_order(&ring[i], &ring[(i + 1) % 3], between_ring);
  return NULL;
}

static pid_t blocked_threads[3];
static void* writes_last(void* unused) {
  pthread_mutex_lock(&wait_lock);
  meet();
  blocked_threads[0] = gettid();
  pthread_rwlock_wrlock(&shared_lock);
  return unused;
}
static void* writes_first(void* unused) {
  pthread_rwlock_wrlock(&shared_lock);
  meet();
  blocked_threads[1] = gettid();
  pthread_mutex_lock(&wait_lock);
  return unused;
}
static void* reads_for_good(void* unused) {
  pthread_rwlock_rdlock(&read_lock);
  meet();
  pause();
  return unused;
}
static void* writes_never(void* unused) {
  meet();
  blocked_threads[0] = gettid();
  pthread_rwlock_wrlock(&read_lock);
  return unused;
}
static void* takes_again(void* unused) {
  pthread_mutex_lock(&again_lock);
  pthread_mutex_lock(&again_lock);
  return unused;
}
static void* takes_orphan(void* unused) {
  pthread_mutex_lock(&orphan_lock);
  return unused;
}
static void* hands_over(void* unused) {
  pthread_mutex_lock(&robust_lock);
  meet();
  meet();
  pthread_mutex_unlock(&robust_lock);
  blocked_threads[0] = gettid();
  pthread_mutex_lock(&third_lock);
  return unused;
}
static void* keeps_robust(void* unused) {
  blocked_threads[1] = gettid();
  pthread_mutex_lock(&robust_lock);
  meet();
  pause();
  return unused;
}
static void* takes_third_and_robust(void* unused) {
  pthread_mutex_lock(&third_lock);
  blocked_threads[2] = gettid();
  pthread_mutex_lock(&robust_lock);
  return unused;
}

// As long as a jump at least.
NOINLINE void own_lock(int number, int* lock) {
  __asm__ volatile("nopl 0x1000(%%rax)" ::"r"(number), "r"(lock) : "memory");
}
NOINLINE void own_unlock(int number, int* lock) {
  __asm__ volatile("nopl 0x1000(%%rax)" ::"r"(number), "r"(lock) : "memory");
}

struct repeated {
  void (*what)(void);
};
static void* repeat(void* what) {
  for (long i = 0; i < times; i++) ((struct repeated*)what)->what();
  return NULL;
}
static void on_two_threads(void (*one)(void), void (*other)(void)) {
  struct repeated both[] = {{one}, {other}};
  pthread_t ids[2];
  for (int i = 0; i < 2; i++) pthread_create(&ids[i], NULL, repeat, &both[i]);
  for (int i = 0; i < 2; i++) pthread_join(ids[i], NULL);
}
static void run(void* (*what)(void*), void* argument) {
  pthread_t id;
  pthread_create(&id, NULL, what, argument);
  pthread_join(id, NULL);
}
static void leave(void* (*what)(void*), void* argument) {
  pthread_t id;
  pthread_create(&id, NULL, what, argument);
  pthread_detach(id);
}

static void quick(void) {
  pthread_mutex_lock(&quick_lock);
  pthread_mutex_unlock(&quick_lock);
}
static void nest(void) {
  pthread_mutex_lock(&nested_lock);
  pthread_mutex_lock(&nested_lock);
  pthread_mutex_unlock(&nested_lock);
  pthread_mutex_unlock(&nested_lock);
}

int main(void) {
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&nested_lock, &recursive);
  pthread_mutexattr_t robust;
  pthread_mutexattr_init(&robust);
  pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&robust_lock, &robust);
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_barrier_init(&barrier_of_three, NULL, 3);
  setvbuf(stdout, 0, _IOLBF, 0);
  char line[64], word[32];
  while (fgets(line, sizeof line, stdin) != NULL) {
    times = 1;
    if (sscanf(line, "%31s %ld %ld", word, &times, &milliseconds) < 1) continue;
    if (!strcmp(word, "hold")) on_two_threads(holds, waits);
    if (!strcmp(word, "try")) on_two_threads(holds_for_tries, tries);
    if (!strcmp(word, "share")) on_two_threads(reads_and_waits, reads_and_writes);
    if (!strcmp(word, "wait")) on_two_threads(waits_for_signal, signals);
    for (long i = 0; i < times && !strcmp(word, "quick"); i++) quick();
    for (long i = 0; i < times && !strcmp(word, "nest"); i++) nest();
    for (long i = 0; i < times && !strcmp(word, "own"); i++) {
      own_lock(1, &own);
      own_unlock(1, &own);
    }
    if (!strcmp(word, "invert")) {
      run(goes_forwards, NULL);
      run(goes_backwards, NULL);
    }
    for (uintptr_t i = 0; i < 3 && !strcmp(word, "ring"); i++) run(goes_round, (void*)i);
    if (!strcmp(word, "deadlock")) {
      leave(goes_forwards, &barrier);
      leave(goes_backwards, &barrier);
      until_awaited(&first_lock);
      until_awaited(&second_lock);
    }
    if (!strcmp(word, "round")) {
      between_ring = &barrier_of_three;
      for (uintptr_t i = 0; i < 3; i++) leave(goes_round, (void*)i);
      for (int i = 0; i < 3; i++) until_awaited(&ring[i]);
    }
    if (!strcmp(word, "mixed")) {
      leave(writes_last, NULL);
      leave(writes_first, NULL);
      for (int i = 0; i < 2; i++) until_asleep(&blocked_threads[i]);
    }
    if (!strcmp(word, "reader")) {
      blocked_threads[0] = 0;
      leave(reads_for_good, NULL);
      leave(writes_never, NULL);
      until_asleep(&blocked_threads[0]);
    }
    if (!strcmp(word, "again")) {
      leave(takes_again, NULL);
      until_awaited(&again_lock);
    }
    if (!strcmp(word, "orphan")) {
      run(takes_orphan, NULL);
      leave(takes_orphan, NULL);
      until_awaited(&orphan_lock);
    }
    if (!strcmp(word, "hand_over")) {
      memset(blocked_threads, 0, sizeof blocked_threads);
      leave(hands_over, NULL);
      meet();
      leave(keeps_robust, NULL);
      until_asleep(&blocked_threads[1]);
      leave(takes_third_and_robust, NULL);
      until_asleep(&blocked_threads[2]);
      meet();  // of those that want the lock, the one that came first gets it
      meet();
      until_asleep(&blocked_threads[0]);
    }
    puts(word);
  }
  return 0;
}
