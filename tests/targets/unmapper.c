// A library that unmaps memory by a system call of its own, which no hook sees if the library comes
// late.
#include <stddef.h>
#include <sys/syscall.h>

long unmap(void* start, size_t bytes) {
  long result = SYS_munmap;
  __asm__ volatile("syscall" : "+a"(result) : "D"(start), "S"(bytes) : "rcx", "r11", "memory");
  return result;
}
