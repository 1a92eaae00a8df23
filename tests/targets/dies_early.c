// Ends with 9 while it is relocated, in an IFUNC's resolver.
#include <sys/syscall.h>

static int plain(void) { return 0; }
static int (*resolve(void))(void) {
  __asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(9) : "rcx", "r11", "memory");
  return plain;
}
int chosen(void) __attribute__((ifunc("resolve")));
int main(void) { return chosen(); }
