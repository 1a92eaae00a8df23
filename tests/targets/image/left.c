// What linkers and strippers leave of symbols: static and exported functions, one in assembly
// without a type, and imports through the procedure linkage table and past it.
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))

static NOINLINE int hidden_a(int x) {
  __asm__ volatile("" : "+r"(x));
  return x + 1;
}

NOINLINE int open_c(int x) {
  __asm__ volatile("" : "+r"(x));
  return x + 2;
}

// Pointers that the loader relocates: to functions of this file, and to an import.
int (*volatile pointers[])(int) = {hidden_a, open_c};
int (*volatile by_address)(const char*) = puts;

__asm__(
    ".text\n.globl untyped\n"
    "untyped: .cfi_startproc\n"
    "  mov %edi, %eax\n  add $3, %eax\n  ret\n"
    ".cfi_endproc\n");
int untyped(int);

NOINLINE int run(int x) {
  const char* const home = getenv("HOME");
  by_address(home != NULL ? home : "");
  return printf("%d\n", hidden_a(x) + open_c(x) + untyped(x) + pointers[x & 1](2));
}

#ifndef LIBRARY
int main(int argc, char** argv) {
  (void)argv;
  return run(argc) < 0;
}
#endif
