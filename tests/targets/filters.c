// Installs a filter of system calls that minds process_vm_readv and gettid, and calls named() with
// texts.
//     filters later prctl       three threads call it all the time. When each has done so 3000
//     times, the filters later syscall     first thread installs a filter that kills the process:
//     by prctl(), for filters later number      itself, by syscall(SYS_seccomp), for all, or by
//     syscall(SYS_prctl); or in filters later FILE        install_filter() of a library that it
//     loads. Then each thread calls 1000
//                               times more
//     filters first ACTION      installs a filter that does this: `kill` or `allow`, or `errno`,
//     and calls
//                               it 100 times for each line that it reads, which it answers with
//                               "done"
//     filters child ACTION      has a child that installs it and calls it 100 times, and then does
//     so itself filters execute ACTION    installs it, and executes itself as `filters run` filters
//     dispatch          calls it 100 times while all system calls but some of the C library's raise
//                               SIGSYS, which kills the process
//     filters run               calls it 100 times
// With OWN, prctl() is an instruction of its own, and with PLUGIN it is such a library. All but
// `first` end with status 7. `later` prints how often each text was: a JSON object.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "noinline.h"

enum { kThreads = 3, kBefore = 3000, kMore = 1000, kOnce = 100 };

#if defined OWN || defined PLUGIN
static int own_prctl(long what, long one, const void* two) {
  long result;
  register long three __asm__("r10") = 0;
  register long four __asm__("r8") = 0;
#ifdef OWN
  // As assemblers write it, with all 64 bits.
#define NUMBER "mov $157, %%rax\n\t"
#else
#define NUMBER "mov $157, %%eax\n\t"
#endif
  __asm__ volatile(NUMBER "syscall"
                   : "=&a"(result)
                   : "D"(what), "S"(one), "d"(two), "r"(three), "r"(four)
                   : "rcx", "r11", "memory");
  return (int)result;
}
#define prctl(what, one, two, ...) own_prctl(what, one, (const void*)(two))
#endif

int install_filter(const char* how, unsigned action) {
  if (strchr(how, '/')) {
    void* const library = dlopen(how, RTLD_NOW);
    int (*const its)(const char*, unsigned) =
        library ? (int (*)(const char*, unsigned))dlsym(library, "install_filter") : NULL;
    return its ? its("prctl", action) : 1;
  }

  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 1;
  if (!strcmp(how, "prctl")) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  if (!strcmp(how, "number"))
    return (int)syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

#ifndef PLUGIN
NOINLINE long named(const char* text) {
  __asm__ volatile("" : "+r"(text)::"memory");
  return (long)text;
}

static atomic_int are_busy, is_installed;
static void* call(void* calls) {
  long i = 0;
  for (; !atomic_load_explicit(&is_installed, memory_order_relaxed); ++i) {
    named("in a thread");
    if (i == kBefore) ++are_busy;
  }
  for (int more = 0; more < kMore; ++more, ++i) named("in a thread");
  *(long*)calls = i;
  return NULL;
}

static int later(const char* how) {
  for (int i = 0; i < 500; ++i) named("before");
  pthread_t threads[kThreads];
  long calls[kThreads], all = 0;
  for (int i = 0; i < kThreads; ++i)
    if (pthread_create(&threads[i], NULL, call, &calls[i])) return 3;
  while (are_busy != kThreads) usleep(100);
  if (install_filter(how, SECCOMP_RET_KILL_PROCESS)) return 4;
  for (int i = 0; i < 500; ++i) named("after");
  is_installed = 1;
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL), all += calls[i];
  printf("{\"before\": 500, \"after\": 500, \"threads\": %ld}\n", all);
  return 7;
}

static int first(const char* action) {
  return install_filter("prctl", !strcmp(action, "kill")    ? SECCOMP_RET_KILL_PROCESS
                                 : !strcmp(action, "errno") ? SECCOMP_RET_ERRNO | 1
                                                            : SECCOMP_RET_ALLOW);
}

static void call_often(const char* text) {
  for (int i = 0; i < kOnce; ++i) named(text);
}

static int child(const char* action) {
  const pid_t one = fork();
  if (one == 0) {
    if (first(action)) _exit(4);
    call_often("child");
    _exit(7);
  }
  int status;
  if (one < 0 || waitpid(one, &status, 0) != one || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
    return 3;
  call_often("parent");
  return 7;
}

static int dispatch(void) {
  enum { kDispatch = 59, kOff = 0, kOn = 1, kAllow = 0, kBlock = 1 };
  static volatile char selector = kAllow;
  call_often("before");
  if (prctl(kDispatch, kOn, 0, 0, &selector)) return 77;
  selector = kBlock;
  call_often("dispatched");
  selector = kAllow;
  (void)selector;
  return prctl(kDispatch, kOff, 0, 0, NULL) ? 4 : 7;
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "run")) {
    call_often("executed");
    return 7;
  }
  if (!strcmp(what, "dispatch")) return dispatch();
  if (argc != 3) return 2;
  if (!strcmp(what, "later")) return later(argv[2]);
  if (!strcmp(what, "child")) return child(argv[2]);
  if (first(argv[2])) return 4;
  if (!strcmp(what, "execute")) {
    execl("/proc/self/exe", argv[0], "run", NULL);
    return 5;
  }
  puts("ready");
  fflush(stdout);
  char line[100];
  while (fgets(line, sizeof line, stdin)) {
    call_often("filtered");
    puts("done");
    fflush(stdout);
  }
  return 0;
}
#endif
