// stack_reader DEPTH: recurses to this depth, and then looks at each return address on its stack,
// as the garbage collectors of some language runtimes do. It ends if one does not lie in its own
// code. Prints how many there were. It is marked like an OCaml program, by a symbol, and by a text
// in case that symbol is stripped.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "noinline.h"

extern const char __executable_start[], etext[];

const char caml_frametable[] = "Fatal error: exception Invalid_argument(\"index out of bounds\")";

static uintptr_t* outermost;

NOINLINE long collect(uintptr_t* frame) {
  long n = 0;
  for (; frame != outermost; frame = (uintptr_t*)frame[0], n++)
    if (frame[1] < (uintptr_t)__executable_start || frame[1] >= (uintptr_t)etext) abort();
  return n;
}

NOINLINE long recurse(long depth) {
  const volatile long deeper =
      depth == 0 ? collect(__builtin_frame_address(0)) : recurse(depth - 1);
  return deeper;
}

int main(int argc, char** argv) {
  outermost = __builtin_frame_address(0);
  printf("%ld\n", recurse(argc > 1 ? atol(argv[1]) : 10));
  return caml_frametable[0] != 'F';
}
