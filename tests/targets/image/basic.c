// Some functions with known names: global, local, alias, weak, and imported.
#include <stdio.h>

#define NOINLINE __attribute__((noinline, noclone))

int counter = 3;             // .data
int zeros[4096];             // .bss
#ifdef HUGE_BSS
char huge[HUGE_BSS];          // too large to copy
#endif
const int table[4] = {1, 2}; // .rodata

NOINLINE int alpha(int x) {
  __asm__ volatile("" : "+r"(x));
  return x * 3 + counter;
}

int alpha_alias(int x) __attribute__((alias("alpha")));

__attribute__((weak)) NOINLINE int weak_one(int x) {
  return alpha(x) - table[x & 3];
}

static NOINLINE int local_one(int x) {
  __asm__ volatile("" : "+r"(x));
  return x + zeros[x & 7];
}

// Pointers to functions, relocated by the loader.
int (*const pointers[])(int) = {alpha, local_one};

NOINLINE int run(int x) {
  printf("%d\n", pointers[x & 1](x));
  return local_one(weak_one(x));
}

#ifndef LIBRARY
int main(int argc, char **argv) {
  (void)argv;
  return run(argc) == -1;
}
#endif
