#include "slot_designs.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/clock.h"

extern "C" {
void run_bare_one();
void run_named_one();
void run_carried_one();
void run_bare_mixed();
void run_named_mixed();
void run_carried_mixed();
}

namespace pinprick::bench {
namespace {

constexpr int kRounds = 41;
constexpr int kRunsPerRound = 1000;
constexpr double kCallsPerRun = 1024;  // slot_designs.S

double ns_per_call(void (*run)()) {
  const uint64_t begin = monotonic_ns();
  for (int i = 0; i < kRunsPerRound; ++i) run();
  return static_cast<double>(monotonic_ns() - begin) / (kRunsPerRound * kCallsPerRun);
}

}  // namespace

void compare_slot_designs(Results& results) {
  struct Way {
    std::string_view name;
    std::array<void (*)(), 3> runs;  // bare, named, carried
  };
  const std::array<Way, 2> ways = {{
      {"one function", {run_bare_one, run_named_one, run_carried_one}},
      {"64 in random order", {run_bare_mixed, run_named_mixed, run_carried_mixed}},
  }};
  constexpr std::array<std::string_view, 2> kKeys = {"one", "mixed"};
  fmt::print("{:<20}  {:>8}  {:>8}  {:>8}\n", "", "bare", "named", "carried");
  for (size_t w = 0; w < ways.size(); ++w) {
    std::array<std::vector<double>, 3> samples;
    for (int round = 0; round < kRounds; ++round)
      for (size_t i = 0; i < samples.size(); ++i)
        samples[i].push_back(ns_per_call(ways[w].runs[i]));
    const double bare = median(samples[0]), named = median(samples[1]),
                 carried = median(samples[2]);
    fmt::print("{:<20}  {:>8.1f}  {:>8.1f}  {:>8.1f}\n", ways[w].name, bare, named, carried);
    const std::string rounds = fmt::format("slots-{}", kKeys[w]);
    results.add(
        {fmt::format("slots-named-{}", kKeys[w]), kPinprick, 1, {samples[0], samples[1]}, rounds});
    results.add({fmt::format("slots-carried-{}", kKeys[w]),
                 kPinprick,
                 1,
                 {samples[0], samples[2]},
                 rounds});
  }
}

}  // namespace pinprick::bench
