// Counts its calls of probed() and appends them to the file $TALLY, as a line "PID CALLS" in one
// write. It calls it as early as a program can: while the loader relocates it (IFUNC), before its
// constructors, in one, and from main.
//   ruled CALLS          calls probed() so often from main
//   ruled CALLS wait     and then waits for a line, and calls once more
//   ruled thread PATH    executes PATH 3 by a thread
//   ruled fail PATH      tries to execute PATH with arguments that are nowhere, then PATH 3
//   ruled leave          forks a child and ends; the child waits for a line, and calls it 10 times
//   ruled fd PATH        executes PATH 3 by a descriptor
//   ruled start PATH N   N times starts a child by each of fork, vfork and posix_spawn, which all
//                        execute PATH 3, and waits for them
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long calls;
__attribute__((noinline)) int probed(int value) {
  ++calls;
  __asm__ volatile("" ::: "memory");
  return value + 1;
}

#ifndef __SANITIZE_ADDRESS__
static int plain(void) { return 0; }
static void* resolve(void) {
  probed(0);
  return (void*)plain;
}
int by_ifunc(void) __attribute__((ifunc("resolve")));
#else
static int by_ifunc(void) { return probed(0) != 1; }
#endif
static void before(void) { probed(0); }
__attribute__((section(".preinit_array"), used)) static void (*before_all)(void) = before;
__attribute__((constructor)) static void construct(void) { probed(0); }

// Not more than that line, as others may read from the same pipe.
static void wait_for_line(void) {
  char character = 0;
  while (character != '\n' && read(0, &character, 1) == 1) {
  }
}

static void tell(void) {
  const char* tally = getenv("TALLY");
  char line[64];
  const int length = snprintf(line, sizeof line, "%d %lu\n", getpid(), calls);
  const int file = tally == NULL ? -1 : open(tally, O_WRONLY | O_APPEND);
  if (tally != NULL && write(file, line, (size_t)length) != length) _exit(9);
  close(file);
}

static char* three[] = {"ruled", "3", NULL};
static void* execute(void* path) {
  tell();
  execv(path, three);
  _exit(8);
}

static void start(char* path, int times) {
  for (int i = 0; i < 3 * times; ++i) {
    pid_t child = 0;
    if (i % 3 == 0 && (child = fork()) == 0) {
      execv(path, three);
      _exit(6);
    }
    if (i % 3 == 1 && (child = vfork()) == 0) {
      execv("/nowhere/ruled", three);
      execv(path, three);
      _exit(6);
    }
    if (i % 3 == 2 && posix_spawn(&child, path, NULL, NULL, three, environ) != 0) exit(6);
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) exit(5);
  }
}

int main(int argc, char** argv) {
  by_ifunc();
  const char* first = argc > 1 ? argv[1] : "1";
  if (strcmp(first, "thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, execute, argv[2]);
    pause();
  }
  if (strcmp(first, "leave") == 0) {
    if (fork() == 0) {
      calls = 0;
      wait_for_line();
      for (int i = 0; i < 10; ++i) probed(i);
    }
    tell();
    return 0;
  }
  if (strcmp(first, "fail") == 0) {
    char** volatile nowhere = (char**)8;
    if (execv(argv[2], nowhere) == 0 || errno != EFAULT) return 7;
    execute(argv[2]);
  }
  if (strcmp(first, "fd") == 0) {
    const int file = open(argv[2], O_PATH | O_CLOEXEC);
    tell();
    fexecve(file, three, environ);
    return 8;
  }
  if (strcmp(first, "start") == 0) {
    start(argv[2], atoi(argv[3]));
    tell();
    return 0;
  }
  for (int i = atoi(first); i > 0; --i) probed(i);
  if (argc > 2 && strcmp(argv[2], "wait") == 0) {
    puts("ready");
    fflush(stdout);
    wait_for_line();
    probed(0);
  }
  tell();
  return 0;
}
