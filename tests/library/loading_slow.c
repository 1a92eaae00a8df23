// A library on which others depend, and of which the relocation waits for another thread: a
// resolver writes a byte to descriptor 198, and reads one from 199. It calls nothing, as nothing is
// resolved.
static long call(long number, long a, long b, long c) {
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c)
                   : "rcx", "r11", "memory");
  return result;
}

static int implementation(void) {
  return 1;
}

static int (*resolve(void))(void) {
  enum { kRead = 0, kWrite = 1, kTo = 198, kFrom = 199 };
  char byte = 0;
  call(kWrite, kTo, (long)&byte, 1);
  call(kRead, kFrom, (long)&byte, 1);
  return implementation;
}

int loading_resolved(void) __attribute__((ifunc("resolve")));
// Not bound when it is first called, like a call.
static int (*const volatile resolved)(void) = loading_resolved;
int loading_slow(void) {
  return resolved();
}
