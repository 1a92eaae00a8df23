// A program for debuggers to look at: calls a function that is probed in every way for each line
// that it reads, and waits in the function for the line. Prints a line when the probes are placed.
#include <cstdio>

#include "pinprick/latency.h"
#include "pinprick/probe.h"

namespace {

volatile long hits;

PINPRICK_INTEGER_ONLY void count(pinprick::Registers&) noexcept {
  hits = hits + 1;
}

}  // namespace

extern "C" [[gnu::noinline]] long waits(long x) {
  return std::getchar() + x;
}

int main() {
  const auto counter = pinprick::Counter::place(waits);
  const auto latency = pinprick::Latency::place(waits);
  const auto probe =
      pinprick::Probe::place({.where = waits, .pre = pinprick::integer_only<&count>()});
  const auto calls = pinprick::ReturnProbe::place(
      pinprick::ReturnProbeSpec{.where = waits, .on_return = pinprick::integer_only<&count>()});
  if (!counter || !latency || !probe || !calls) {
    std::puts(counter ? "not placed" : counter.error().message().c_str());
    return 1;
  }
  std::puts("ready");
  std::fflush(stdout);
  while (waits(1) != EOF + 1) {
  }
  return 0;
}
