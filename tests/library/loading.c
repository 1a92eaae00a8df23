// A library that is looked at while it is being loaded: after it is mapped, and before it is
// relocated. Its calls of other libraries are bound when they are first made.
#define _GNU_SOURCE
#include "loading.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pinprick/tracepoint.h>

PINPRICK_POINT_DECLARE(loading, hit, long);
PINPRICK_POINT_DEFINE(loading, hit);

int loading_slow(void);

long loading_run(long value) {
  PINPRICK_POINT(loading, hit, value);
  return value;
}

int loading_attach(loading_function* function, void* data) {
  return PINPRICK_POINT_ATTACH(loading, hit, function, data, 0);
}

int loading_calls(void) {
  return loading_slow() + 1;
}

// As an unwinder does.
int loading_finds(void* address) {
  struct dl_find_object found;
  return _dl_find_object(address, &found) == 0;
}

int loading_vfork(void (*in_child)(void)) {
  const pid_t child = vfork();
  if (child == 0) {
    in_child();
    _exit(7);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7;
}

#ifdef TEXT_RELOCATIONS
// The loader writes the address into the first instruction.
__asm__(
    ".text\n"
    ".globl loading_relocated\n"
    ".type loading_relocated, @function\n"
    "loading_relocated:\n"
    ".cfi_startproc\n"
    "movabsq $loading_run, %rax\n"
    "retq\n"
    ".cfi_endproc\n"
    ".size loading_relocated, . - loading_relocated\n");
#endif
