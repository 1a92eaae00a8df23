// Labels as values: an interpreter with a table of its labels' addresses, one with a table of their
// distances, and one that computes the address of a label in its code.
#define NOINLINE __attribute__((noinline, noclone))

volatile int sink;

NOINLINE int by_address(const unsigned char *program, int x) {
  static const void *const labels[] = {&&add, &&multiply, &&negate, &&halt};
#define NEXT goto *labels[*program++ & 3]
  NEXT;
add:
  x += 7;
  sink = x;
  NEXT;
multiply:
  x *= 3;
  sink = x + 1;
  NEXT;
negate:
  x = -x;
  sink = x + 2;
  NEXT;
halt:
  return x;
#undef NEXT
}

NOINLINE int by_distance(const unsigned char *program, int x) {
  static const int labels[] = {&&add - &&add, &&multiply - &&add, &&negate - &&add, &&halt - &&add};
#define NEXT goto *(&&add + labels[*program++ & 3])
  NEXT;
add:
  x += 11;
  sink = x;
  NEXT;
multiply:
  x *= 5;
  sink = x + 1;
  NEXT;
negate:
  x = -x;
  sink = x + 2;
  NEXT;
halt:
  return x;
#undef NEXT
}

int main(int argc, char **argv) {
  static const unsigned char program[] = {0, 1, 2, 1, 0, 3};
  (void)argv;
  return by_address(program, argc) + by_distance(program, argc) == 0;
}
