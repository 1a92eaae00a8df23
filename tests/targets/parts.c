// Calls the functions of parts.S, and prints their results. `parts [ROUNDS]`
#include <stdio.h>
#include <stdlib.h>

long leaf(long), table(long), ends(long), calls(long);

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 1000;
  unsigned long sum = 0;
  for (long i = 0; i < rounds; ++i)
    sum = sum * 31 + (unsigned long)(leaf(i) ^ table(i) ^ ends(i) ^ calls(i));
  printf("%lx\n", sum);
}
