// Walks its stack frame by frame, with the libunwind to which it is linked: nongnu's, or LLVM's
// with LLVM defined. For each line it recurses to the depth in the line, and prints from where in
// this program it was called, and how far apart these frames are. With an argument it reads another
// line at the first frame that is not its own, before it goes on.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "noinline.h"

// Without a header, as the two have the same name and cannot be installed together.
#ifdef LLVM
#define FUNCTION(name) unw_##name
enum { kIp = -1, kSp = -2 };
#else
#define FUNCTION(name) _ULx86_64_##name
#define unw_getcontext _Ux86_64_getcontext
enum { kIp = 16, kSp = 7 };
#endif
struct context {
  _Alignas(16) uint64_t words[256];
};
struct cursor {
  _Alignas(16) uint64_t words[256];
};
int unw_getcontext(struct context*);
int FUNCTION(init_local)(struct cursor*, struct context*);
int FUNCTION(step)(struct cursor*);
int FUNCTION(get_reg)(struct cursor*, int, uint64_t*);

extern char __executable_start, etext;
static int holds;

static void walks(void) {
  struct context context;
  struct cursor cursor;
  uint64_t first = 0;
  int held = !holds;
  unw_getcontext(&context);
  FUNCTION(init_local)(&cursor, &context);
  while (FUNCTION(step)(&cursor) > 0) {
    uint64_t ip = 0, sp = 0;
    FUNCTION(get_reg)(&cursor, kIp, &ip);
    FUNCTION(get_reg)(&cursor, kSp, &sp);
    if (ip - (uint64_t)&__executable_start < (uint64_t)(&etext - &__executable_start)) {
      if (first == 0) first = sp;
      printf("%lx@%lx ", ip - (uint64_t)&__executable_start, sp - first);
    } else if (!held) {
      held = 1;
      printf("holds\n");
      fflush(stdout);
      char line[64];
      if (!fgets(line, sizeof line, stdin)) exit(1);
    }
  }
  printf("walked\n");
  fflush(stdout);
}

NOINLINE void goes(long depth) {
  if (depth <= 0)
    walks();
  else
    goes(depth - 1);
  __asm__ volatile("");  // so that it is no tail call
}

int main(int argc, char** argv) {
  (void)argv;
  holds = argc > 1;
  char line[64];
  while (fgets(line, sizeof line, stdin)) goes(atol(line));
  return 0;
}
