// Exceptions that are caught, and that run destructors before.
#include <cstdio>
#include <stdexcept>
#include <string>

#define NOINLINE __attribute__((noinline, noclone))

int destroyed = 0;

struct Guard {
  ~Guard() { ++destroyed; }
};

NOINLINE void thrower(int x) {
  if (x == 1) throw std::runtime_error("one");
  if (x == 2) throw 2;
  if (x == 3) throw std::string("three, and long enough to be allocated");
}

NOINLINE void cleaner(int x) {
  Guard guard;
  thrower(x);
  std::printf("%d came through\n", x);
}

NOINLINE int catcher(int x) {
  try {
    cleaner(x);
  } catch (const std::runtime_error& error) {
    return error.what()[0];
  } catch (int number) {
    return number;
  } catch (...) {
    return -1;
  }
  return 0;
}

int main() {
  for (int x = 0; x < 4; ++x) std::printf("%d: %d\n", x, catcher(x));
  return destroyed == 4 ? 0 : 1;
}
