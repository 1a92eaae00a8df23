// copies: copies and moves memory with every alignment, short and long, and checks each copy.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT = 2048, LONG = 1 << 20 };

// The C library's functions, not the compiler's built-in ones.
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static void *(*volatile move)(void *, const void *, size_t) = memmove;

static void check(const unsigned char *to, const unsigned char *from, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (to[i] != from[i]) {
      fprintf(stderr, "byte %zu of %zu: %d, not %d\n", i, size, to[i], from[i]);
      exit(1);
    }
}

int main(void) {
  static unsigned char from[LONG + 64], to[LONG + 64], kept[LONG + 64];
  for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i * 7 + i / 256);
  for (size_t a = 0; a < 64; a++)
    for (size_t b = 0; b < 64; b++)
      for (size_t size = 0; size < SHORT - 64; size += 37 + size / 2) {
        copy(to + a, from + b, size);
        check(to + a, from + b, size);
        copy(kept, to + b, size);
        move(to + a, to + b, size);
        check(to + a, kept, size);
      }
  for (size_t a = 0; a < 16; a++) {
    copy(to + a, from + 3, LONG);
    check(to + a, from + 3, LONG);
  }
  puts("copied");
  return 0;
}
