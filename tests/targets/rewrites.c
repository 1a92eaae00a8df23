// Changes its own code. The line `change N` makes work() return N from then on, by other bytes at
// its start; `restore` puts the bytes back that were there when the program started; `call` calls
// it a thousand times. Each line is answered with a line, `call` with the sum. Ends at the end of
// its input.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "noinline.h"

NOINLINE long work(long x) {
  __asm__ volatile("nopl 0(%%rax,%%rax)" : "+r"(x));
  return x;
}

static void write_code(const unsigned char* bytes, size_t size) {
  unsigned char* const at = (unsigned char*)(uintptr_t)&work;
  unsigned char* const page = (unsigned char*)((uintptr_t)at & ~4095ul);
  if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) exit(3);
  memcpy(at, bytes, size);
  if (mprotect(page, 8192, PROT_READ | PROT_EXEC) != 0) exit(3);
}

int main(void) {
  enum { kSize = 6 };
  unsigned char original[kSize], other[kSize] = {0xb8, 0, 0, 0, 0, 0xc3};  // mov $N,%eax; ret
  char line[64];
  long (*volatile function)(long) = work;
  memcpy(original, (void*)(uintptr_t)&work, kSize);
  setvbuf(stdout, 0, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin)) {
    if (strncmp(line, "change ", 7) == 0) {
      const int32_t n = atoi(line + 7);
      memcpy(other + 1, &n, sizeof n);
      write_code(other, kSize);
      puts("changed");
    } else if (strcmp(line, "restore\n") == 0) {
      write_code(original, kSize);
      puts("restored");
    } else {
      long sum = 0;
      for (int i = 0; i < 1000; i++) sum += function(1);
      printf("%ld\n", sum);
    }
  }
  return 0;
}
