// Switches that compilers turn into jump tables. Every case does something different, so that the
// switch does not become a table of values.
#define NOINLINE __attribute__((noinline, noclone))
#define CASE(n)                                          \
  case n:                                                \
    __asm__ volatile("nopl " #n "(%%rax)" ::"r"(x * n)); \
    break;
#define EIGHT(n) CASE(n##0) CASE(n##1) CASE(n##2) CASE(n##3) CASE(n##4) CASE(n##5) CASE(n##6) CASE(n##7)

volatile int sink;

NOINLINE void one_switch(int what, int x) {
  switch (what) {
    EIGHT(1)
    EIGHT(2)
    default:
      sink = x;
  }
}

// Two adjacent tables.
NOINLINE void two_switches(int what, int how, int x) {
  switch (what) {
    EIGHT(3)
    default:
      sink = x;
  }
  switch (how) {
    EIGHT(4)
    EIGHT(5)
    default:
      sink = what;
  }
}

// The same in a loop, so that the tables' addresses may be kept in registers.
NOINLINE void looping_switches(const unsigned char *program, int x) {
  for (;; ++program) {
    switch (*program) {
      EIGHT(1)
      case 18:
        return;
      default:
        sink = x;
    }
    switch (program[1]) {
      EIGHT(2)
      default:
        ++x;
    }
    switch (program[2]) {
      EIGHT(6)
      EIGHT(7)
      default:
        --x;
    }
  }
}

int main(int argc, char **argv) {
  static const unsigned char program[] = {10, 20, 60, 11, 27, 77, 18};
  (void)argv;
  for (int i = 0; i < 80; ++i) {
    one_switch(i, argc);
    two_switches(i, 80 - i, argc);
  }
  looping_switches(program, argc);
  return 0;
}
