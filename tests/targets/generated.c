// generated ROUNDS [listed]: for each line on stdin it generates code in anonymous memory, which calls
// visited() ROUNDS times, and it calls worked() ROUNDS times itself. As a garbage collector would,
// visited() looks at the return address of the generated code's call, and ends the program if that
// does not lie in the generated code. Prints the sum of the results of worked(). With `listed`, it
// lists the generated code for perf, in /tmp/perf-PID.map.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "noinline.h"

enum { kSize = 4096 };
static char* code;
static uintptr_t* stack;  // the generated code's stack pointer, when it calls

NOINLINE void visited(void) {
  const uintptr_t return_address = stack[-1];
  if (return_address - (uintptr_t)code >= kSize) abort();
}

NOINLINE long worked(long value) { return value * 3 + 1; }

static void make_code(void) {
  static const unsigned char calls[] = {
      0x48, 0x83, 0xec, 0x08,  // sub $8,%rsp
      0x48, 0x89, 0x27,        // mov %rsp,(%rdi)
      0xff, 0xd6,              // call *%rsi
      0x48, 0x83, 0xc4, 0x08,  // add $8,%rsp
      0xc3,                    // ret
  };
  code = mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, calls, sizeof calls);
  mprotect(code, kSize, PROT_READ | PROT_EXEC);
}

static void list_code(void) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
  FILE* const file = fopen(path, "a");
  fprintf(file, "%lx %x generated code of ours\n", (unsigned long)(uintptr_t)code, kSize);
  fclose(file);
}

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 1000;
  char line[64];
  while (fgets(line, sizeof line, stdin) != NULL) {
    make_code();
    if (argc > 2) list_code();
    void (*const generated)(uintptr_t**, void (*)(void)) =
        (void (*)(uintptr_t**, void (*)(void)))(uintptr_t)code;
    long sum = 0;
    for (long i = 0; i < rounds; i++) {
      generated(&stack, visited);
      sum += worked(i);
    }
    printf("sum %ld\n", sum);
    fflush(stdout);
  }
}
