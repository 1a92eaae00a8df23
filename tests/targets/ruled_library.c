// A library that counts its calls of probed(), from its IFUNC resolver, its constructor and
// run_ruled(), and appends them to the file $TALLY, as ruled.c does.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned long calls;
__attribute__((noinline, visibility("hidden"))) int probed(int value) {
  ++calls;
  __asm__ volatile("" ::: "memory");
  return value + 1;
}
static int plain(void) { return 0; }
static void* resolve(void) {
  probed(0);
  return (void*)plain;
}
int by_ifunc(void) __attribute__((ifunc("resolve")));
__attribute__((constructor)) static void construct(void) { probed(0); }

int run_ruled(int times) {
  by_ifunc();
  for (int i = 0; i < times; ++i) probed(i);
  const char* tally = getenv("TALLY");
  char line[64];
  const int length = snprintf(line, sizeof line, "%d %lu\n", getpid(), calls);
  const int file = tally == NULL ? -1 : open(tally, O_WRONLY | O_APPEND);
  if (tally != NULL && write(file, line, (size_t)length) != length) return 9;
  close(file);
  return 0;
}
