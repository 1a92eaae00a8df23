// A program that probes itself while a debugger or strace runs it.
//
//   (no argument)   places probes, runs what they are on, and starts a thread; prints what they
//   have
//                   counted, and whether the text is the old one in the end
//   called          only runs the functions; a debugger calls place_between() and place_single()
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "library/functions.h"
#include "pinprick/latency.h"
#include "pinprick/probe.h"

namespace {

std::optional<pinprick::Counter> between, single;

bool place(long (*function)(long), std::optional<pinprick::Counter>& where) {
  auto counter = pinprick::Counter::place(function);
  if (counter)
    where = *std::move(counter);
  else
    std::puts(counter.error().message().c_str());
  std::fflush(stdout);
  return where.has_value();
}

void run() {
  for (long i = 0; i < 1000; ++i)
    if (self_steps(i) != i + 4 || self_insn(i) != i + 1000) std::puts("a wrong result");
}

}  // namespace

extern "C" {

// Returns 1 if the probe is placed, and prints why not.
[[gnu::used, gnu::noinline]] int place_between() {
  return place(self_steps, between) ? 1 : 0;
}
[[gnu::used, gnu::noinline]] int place_single() {
  return place(self_insn, single) ? 1 : 0;
}

}  // extern "C"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "called") {
    run();
  } else {
    uint8_t before[16], after[16];
    std::memcpy(before, reinterpret_cast<const void*>(self_steps), sizeof before);
    if (place_between() == 0 || place_single() == 0) return 1;
    run();
    std::thread(run).join();
    std::printf("counted %lu %lu\n", between->value(), single->value());
    between.reset();
    std::memcpy(after, reinterpret_cast<const void*>(self_steps), sizeof after);
    std::puts(std::memcmp(before, after, sizeof before) == 0 ? "text restored" : "text differs");
  }
  if (single) std::printf("counted %lu\n", single->value());
  return 0;
}
