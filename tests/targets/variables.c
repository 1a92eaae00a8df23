// Functions with variables of many types, in registers, on the stack and elsewhere. Nothing in them
// depends on addresses, so a debugger and a probe find the same numbers. Calls each function ten
// times after a line of input, and prints what all of it comes to.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "noinline.h"

enum kind { FIRST, SECOND = 5, LAST = -3 };

struct peer {
  int port;
  const char* city;
  unsigned low : 3, high : 7;
  signed int below : 4;
  uint64_t wide : 40;
};

struct request {
  struct peer* peer;
  char name[16];
  short items[6];
  enum kind kind;
  union {
    int64_t number;
    uint8_t bytes[8];
  };
  struct {
    uint16_t inner;
  } nested;
  short grid[2][3];
  struct {
    unsigned first : 20, second : 20;
  } __attribute__((packed)) packed;
  struct request* next;
  int (*handler)(int);
};

struct small {
  int left;
  short right;
};
struct large {
  long all[5];
};

static int64_t total;
unsigned char level = 200;
static struct request requests[3];

NOINLINE static int handle(int with) {
  total += with;
  return with + 1;
}

static inline __attribute__((always_inline)) int inlined(const struct request* of, int by) {
  int sum = 0;
  for (int i = 0; i < 6; ++i) sum += of->items[i] * by;
  total += sum;  // line: inlined
  return sum;
}

NOINLINE int serve(struct request* r, int n, unsigned char flags, int64_t far) {
  int sum = n;
  for (int i = 0; i < 3; ++i) {
    int part = r->items[i] + flags;
    sum += part;
    total += part;  // line: loop
  }
  r->number = far - sum;
  sum += inlined(r, n);
  handle(sum);  // line: after
  return sum - r->peer->port;
}

NOINLINE long many(int a, long b, short c, double d, unsigned e, char f, long g, int h,
                   struct large by_value, const char* text) {
  static int calls;
  long all = a + b + c + (long)d + e + f + g + h + by_value.all[4] + text[0];
  ++calls;
  total += all;  // line: many
  return all;
}

NOINLINE int in_parts(struct small pair, int after) {
  int both = pair.left + pair.right;
  total += both * after;  // line: parts
  return both;
}

int main(void) {
  static struct peer peers[2] = {{443, "first.example", 5, 100, -3, 0x123456789aull},
                                 {8080, "second.example", 2, 7, 6, 1}};
  char line[64];
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    for (int i = 0; i < 10; ++i) {
      struct request* const r = &requests[i % 3];
      r->peer = &peers[i % 2];
      snprintf(r->name, sizeof r->name, "name-%d", i);
      for (int k = 0; k < 6; ++k) r->items[k] = (short)(k * i - 7);
      r->kind = i % 3 == 0 ? FIRST : i % 3 == 1 ? SECOND : LAST;
      r->nested.inner = (uint16_t)(65535 - i);
      r->next = &requests[(i + 1) % 3];
      r->grid[1][2] = (short)(100 * i);
      r->packed.first = 0xabcdeu;
      r->packed.second = 0x12345u + (unsigned)i;
      r->handler = handle;
      serve(r, i, (unsigned char)(250 + i), -5000000000 * i);
      const struct large large = {{i, 2, 3, 4, 5 * i}};
      many(i, -i, (short)-2, 1.5, 4000000000u, 'x', 7, -8, large, r->name);
      const struct small small = {-i, (short)(2 * i)};
      in_parts(small, i + level);
    }
    printf("total %lld\n", (long long)total);
    fflush(stdout);
  }
  return 0;
}
