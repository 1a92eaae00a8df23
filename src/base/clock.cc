#include "base/clock.h"

#include <cpuid.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

namespace pinprick {
namespace {

uint64_t now(clockid_t clock) {
  timespec t = {};
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

struct Anchor {
  uint64_t tsc;
  uint64_t ns;
  uint64_t width;  // ticks that the reading took
};

// Of several readings, takes the one that was interrupted least.
Anchor anchor() {
  Anchor best = {0, 0, UINT64_MAX};
  for (int i = 0; i < 20; ++i) {
    const uint64_t before = read_tsc();
    const uint64_t ns = monotonic_ns();
    const uint64_t after = read_tsc();
    if (after - before < best.width) best = {before + (after - before) / 2, ns, after - before};
  }
  return best;
}

// Most callers need the frequency after they have done other work for long enough.
const Anchor kProgramStart = anchor();

double measure_frequency(uint64_t shortest_ns) {
  const uint64_t passed = monotonic_ns() - kProgramStart.ns;
  if (passed < shortest_ns) {
    const timespec wait = {0, static_cast<long>(shortest_ns - passed)};
    nanosleep(&wait, nullptr);
  }
  const Anchor last = anchor();
  return static_cast<double>(last.tsc - kProgramStart.tsc) * 1e9 /
         static_cast<double>(last.ns - kProgramStart.ns);
}

uint64_t multiplier_of(double frequency) {
  return static_cast<uint64_t>(std::llround(std::ldexp(1e9 / frequency, 32)));
}

}  // namespace

uint64_t monotonic_ns() {
  return now(CLOCK_MONOTONIC);
}
void sleep_ns(uint64_t duration) {
  const timespec time = {static_cast<time_t>(duration / 1'000'000'000),
                         static_cast<long>(duration % 1'000'000'000)};
  nanosleep(&time, nullptr);
}
uint64_t boottime_ns() {
  return now(CLOCK_BOOTTIME);
}
uint64_t realtime_ns() {
  return now(CLOCK_REALTIME);
}
uint64_t read_tsc() {
  return __rdtsc();
}

bool tsc_is_invariant() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
}

double tsc_frequency() {
  static const double frequency = measure_frequency(10'000'000);
  return frequency;
}

uint64_t ns_multiplier() {
  return multiplier_of(tsc_frequency());
}

uint64_t rough_ns_multiplier() {
  return multiplier_of(measure_frequency(100'000));
}

}  // namespace pinprick
