// A program that is linked to libgcc and libstdc++ statically, and so brings an unwinder of its
// own: exceptions pass through calls that the library follows and times, more often than there are
// slots.
#include <cstdio>
#include <stdexcept>

#include "pinprick/latency.h"
#include "pinprick/probe.h"

extern "C" [[gnu::noinline]] long throws(long x) {
  if (x > 0) throw std::runtime_error("thrown");
  return x + 1;
}

int main() {
  constexpr int kThrown = 10'000;
  const auto probe = pinprick::ReturnProbe::place(pinprick::ReturnProbeSpec{
      .where = throws, .on_return = [](pinprick::Registers&) {}, .allow_breakpoint = true});
  const auto latency = pinprick::Latency::place(throws);
  if (!probe || !latency) {
    std::puts((probe ? latency.error() : probe.error()).message().c_str());
    return 1;
  }
  int caught = 0;
  for (int i = 0; i < kThrown; ++i) {
    try {
      throws(1);
    } catch (const std::runtime_error&) {
      ++caught;
    }
  }
  const bool right = throws(0) == 1 && caught == kThrown && probe->unwound() == kThrown &&
                     latency->unwound() == kThrown;
  if (!right)
    std::printf("caught %d, left %lu and %lu\n", caught, probe->unwound(), latency->unwound());
  return right ? 0 : 1;
}
