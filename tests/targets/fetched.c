// For each `hand` that it reads, calls handed() with values that it knows, and answers "handed".
// The record has numbers, bits, arrays and texts at known offsets, and `level` is 4660.
#include <stdio.h>
#include <string.h>

#include "noinline.h"

struct record {
  unsigned char tag;        // at 0
  unsigned int flags;       // at 4
  short numbers[3];         // at 8
  const char* name;         // at 16
  const char* names[2];     // at 24
  char letters[4];          // at 40
  struct record* previous;  // at 48
};

int level = 0x1234;

NOINLINE long handed(struct record* r, int two, long three, long four, long five, long six,
                     long seven, long eight) {
  __asm__ volatile("" ::"r"(r) : "memory");
  return two + three + four + five + six + seven + eight;
}

int main(void) {
  struct record first = {.tag = 'q', .flags = 7, .name = "first"};
  struct record last = {.tag = 'A',
                        .flags = 0xb5,
                        .numbers = {1, -2, 0x7fff},
                        .name = "last one",
                        .names = {"left", "right"},
                        .letters = "abc",
                        .previous = &first};
  char word[32];
  setvbuf(stdout, 0, _IOLBF, 0);
  while (scanf("%31s", word) == 1) {
    if (!strcmp(word, "ready")) puts("ready");
    if (!strcmp(word, "hand") && handed(&last, -2, 3, 4, 5, 6, -7, 8) == 17) puts("handed");
  }
  return 0;
}
