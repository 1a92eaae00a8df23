// Calls `leaf` while the thread's fs base is not that of a control block: it points to zeros. Takes no
// arguments, and prints nothing.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "noinline.h"

static volatile int sink;

NOINLINE int leaf(int number) {
  sink = number;
  return number;
}

// Neither this nor what it calls may use a thread-local variable, or a stack protector.
__attribute__((optimize("no-stack-protector"))) NOINLINE static void call_with(uint64_t base,
                                                                               int number) {
  uint64_t own = 0;
  long result = SYS_arch_prctl;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(ARCH_GET_FS), "S"(&own)
                   : "rcx", "r11", "memory");
  result = SYS_arch_prctl;
  __asm__ volatile("syscall" : "+a"(result) : "D"(ARCH_SET_FS), "S"(base) : "rcx", "r11", "memory");
  leaf(number);
  result = SYS_arch_prctl;
  __asm__ volatile("syscall" : "+a"(result) : "D"(ARCH_SET_FS), "S"(own) : "rcx", "r11", "memory");
}

int main(void) {
  char* const zeros =
      mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 100; ++i) leaf(1);
  for (int i = 0; i < 100; ++i) call_with((uint64_t)zeros + 8192, 2);
  return 0;
}
