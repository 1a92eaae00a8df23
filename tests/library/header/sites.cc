// Fires points off and, if the program has libpinprick, on. Prints how often a function was called.
#include "sites.h"

#include <cstdio>

extern "C" int unused_function(int value) {
  PINPRICK_POINT(sites, inlined, value);
  return value;
}

PINPRICK_POINT_DEFINE(sites, inlined);

PINPRICK_POINT_DECLARE(sites, most, int, long, const char*, double, float, short, char, unsigned,
                       bool, unsigned long, double, signed char);
PINPRICK_POINT_DEFINE(sites, most);

extern "C" void reach_most(int a, double b, const char* c) {
  PINPRICK_POINT(sites, most, a, a, c, b, 1.5F, 6, 'g', 8u, true, 10u, b, -12);
  PINPRICK_POINT_SDT(sites, most, a, a, c, b, 1.5F, 6, 'g', 8u, true, 10u, b, -12);
}

namespace {

void count(void* data, int) {
  ++*static_cast<int*>(data);
}

int pass() {
  return in_template(1) + in_template(2.0) + in_inline(3) + in_other_file(4);
}

}  // namespace

int main() {
  int hits = 0;
  if (pass() != 12 || hits != 0) return 1;
  if (PINPRICK_POINT_ATTACH(sites, inlined, count, &hits, 0) != 0)
    return errno == ENOSYS && !pinprick_points_available() ? 0 : 2;
  if (pass() != 12) return 3;
  if (hits != 8) return 4;
  if (PINPRICK_POINT_DETACH(sites, inlined, count, &hits) != 0) return 5;
  if (pass() != 12 || hits != 8) return 6;
  std::puts("attached");
  return 0;
}
