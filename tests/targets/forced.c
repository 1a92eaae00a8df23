// Unwinds calls by force, through frames with something to clean up. `forced [N]` prints how many
// frames of chain() a backtrace has at the bottom of a chain of calls, and then N times ends such a
// chain by unwinding it. It prints how many frames were cleaned up.
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>

#include "noinline.h"

enum { depth = 20 };

static jmp_buf caught;
static long cleaned, enough;
static struct _Unwind_Exception exception;

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                struct _Unwind_Exception* one, struct _Unwind_Context* context,
                                void* with) {
  (void)version, (void)actions, (void)class, (void)one, (void)context, (void)with;
  if (cleaned == enough) longjmp(caught, 1);
  return _URC_NO_REASON;
}

static void clean(int* level) {
  cleaned += *level > 0;
}

NOINLINE int chain(int level, int (*last)(void)) {
  __attribute__((cleanup(clean))) int mine = level;
  return level > 1 ? chain(level - 1, last) + mine - level : last();
}

static _Unwind_Reason_Code count(struct _Unwind_Context* context, void* frames) {
  *(int*)frames += _Unwind_GetRegionStart(context) == (uintptr_t)chain;
  return _URC_NO_REASON;
}

NOINLINE static int count_frames(void) {
  int frames = 0;
  _Unwind_Backtrace(count, &frames);
  return frames;
}

NOINLINE static int unwind(void) {
  enough = cleaned + depth;
  _Unwind_ForcedUnwind(&exception, stop, NULL);
  abort();
}

int main(int argc, char** argv) {
  const int frames = chain(depth, count_frames);
  cleaned = 0;
  printf("frames %d\n", frames);
  for (long n = argc > 1 ? atol(argv[1]) : 1; n > 0; --n)
    if (setjmp(caught) == 0) chain(depth, unwind);
  printf("cleaned %ld\n", cleaned);
}

#ifdef MUSL
// LLVM's libunwind was compiled for glibc.
#include <stdarg.h>
int __fprintf_chk(FILE* file, int flag, const char* format, ...) {
  (void)flag;
  va_list list;
  va_start(list, format);
  const int printed = vfprintf(file, format, list);
  va_end(list);
  return printed;
}
#endif
