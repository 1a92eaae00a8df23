// `throws N` throws N exceptions. Every fourth is thrown again once. All are caught.
#include <cstdio>
#include <cstdlib>

int main(int, char** arguments) {
  const long n = std::strtol(arguments[1], nullptr, 10);
  long caught = 0;
  for (long i = 0; i < n; ++i) {
    try {
      try {
        throw i;
      } catch (long number) {
        ++caught;
        if (number % 4 == 0) throw;
      }
    } catch (long) {
      ++caught;
    }
  }
  std::printf("%ld\n", caught);
  return 0;
}
