// A program under seccomp:
//     filtered allow     the filter allows everything
//     filtered errno     mmap, munmap, socketpair and recvmsg fail with EPERM
//     filtered kill      those calls kill the process
//     filtered home      only rt_sigprocmask kills it
//     filtered strict    all calls but read, write, exit and sigreturn kill it
//     filtered thread    `kill` on all threads except for one, which sleeps
// Then it calls tick() 1000 times for each line on stdin, and answers with "ticked". Ends at the
// end of its input, with status 0.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "noinline.h"

NOINLINE long tick(long x) {
  __asm__ volatile("" : "+r"(x));
  return x * 3 + 1;
}

static void* sleeping(void* unused) {
  for (;;) pause();
  return unused;
}

#define ON(number, action) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)
#define LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ELSE_ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int install(const struct sock_filter* code, unsigned short length) {
  struct sock_fprog program = {length, (struct sock_filter*)code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int on_memory_and_descriptors(unsigned action) {
  const struct sock_filter code[] = {LOAD_NUMBER,
                                     ON(SYS_mmap, action),
                                     ON(SYS_munmap, action),
                                     ON(SYS_socketpair, action),
                                     ON(SYS_recvmsg, action),
                                     ELSE_ALLOW};
  return install(code, sizeof code / sizeof *code);
}

static int begin(const char* kind) {
  const struct sock_filter nothing[] = {ELSE_ALLOW};
  const struct sock_filter home[] = {LOAD_NUMBER, ON(SYS_rt_sigprocmask, SECCOMP_RET_KILL_PROCESS),
                                     ELSE_ALLOW};
  pthread_t thread;
  if (!strcmp(kind, "allow")) return install(nothing, 1);
  if (!strcmp(kind, "errno")) return on_memory_and_descriptors(SECCOMP_RET_ERRNO | 1);
  if (!strcmp(kind, "kill")) return on_memory_and_descriptors(SECCOMP_RET_KILL_PROCESS);
  if (!strcmp(kind, "home")) return install(home, sizeof home / sizeof *home);
  if (!strcmp(kind, "strict")) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  if (strcmp(kind, "thread") || pthread_create(&thread, 0, sleeping, 0)) return 1;
  return on_memory_and_descriptors(SECCOMP_RET_KILL_PROCESS);
}

static void answer(const char* text) {
  if (syscall(SYS_write, 1, text, strlen(text)) < 0) syscall(SYS_exit, 1);
}

int main(int argc, char** argv) {
  if (argc != 2 || begin(argv[1])) return 2;
  answer("ready\n");
  char byte;
  while (syscall(SYS_read, 0, &byte, 1) == 1) {
    long sum = 0;
    if (byte != '\n') continue;
    for (long i = 0; i < 1000; i++) sum += tick(i);
    answer(sum == 3 * 999 * 500 + 1000 ? "ticked\n" : "WRONG\n");
  }
  // The exit call that `strict` allows ends one thread only.
  syscall(strcmp(argv[1], "strict") ? SYS_exit_group : SYS_exit, 0);
}
