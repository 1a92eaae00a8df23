// A library whose code runs before its program's main(): an IFUNC's resolver, a constructor. And a
// program with .preinit_array. Each calls counted(), as main does.
#ifdef LIBRARY
static int calls;
__attribute__((noinline)) int counted(void) {
  __asm__ volatile("" ::: "memory");
  return ++calls;
}
__attribute__((constructor)) static void construct(void) { counted(); }
#ifndef MUSL
static int plain(void) { return calls; }
static int (*resolve(void))(void) {
  counted();
  return plain;
}
int by_ifunc(void) __attribute__((ifunc("resolve")));
#else
int by_ifunc(void) { return calls; }
#endif
#endif
#ifdef PROGRAM
#include <stdio.h>
int counted(void);
int by_ifunc(void);
static void before(void) { counted(); }
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before;
int main(void) {
  counted();
  printf("%d\n", by_ifunc());
  return 0;
}
#endif
