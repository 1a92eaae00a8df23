// What programs that measure themselves have in common. Each prints one line for each measurement,
//
//     NAME ENGINE THREADS ROUNDS UNIT BASE VALUE BASE VALUE ...
//
// and a last line `done`. There is a pair of values for each round: without and with what is
// measured. Measurements that took turns have the same ROUNDS, a name; it is `-` if there is no
// base, which then is 0.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string_view>
#include <vector>

struct Samples {
  std::vector<double> base, with;
};

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class F>
double ns_of(F&& f) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  f();
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

inline void report(std::string_view name, std::string_view engine, int threads,
                   std::string_view rounds, const Samples& samples) {
  std::cout << name << " " << engine << " " << threads << " " << rounds << " ns";
  for (size_t i = 0; i < samples.with.size(); ++i)
    std::cout << " " << samples.base[i] << " " << samples.with[i];
  std::cout << std::endl;
}

inline void report(std::string_view name, std::string_view engine, int threads,
                   const std::vector<double>& values, std::string_view unit = "ns") {
  std::cout << name << " " << engine << " " << threads << " - " << unit;
  for (const double value : values) std::cout << " 0 " << value;
  std::cout << std::endl;
}

// How often a loop of hits goes round, and how often it is measured in turn with the empty one.
inline constexpr uint64_t kHits = 200'000;
inline constexpr int kRuns = 101;

// A loop, at the start of a cache line, that reaches the statement with a number `i`.
#define HIT_LOOP(name, ...)                            \
  __attribute__((noinline, aligned(64))) void name() { \
    for (uint64_t i = 0; i < kHits; ++i) {             \
      asm volatile("" : : "r"(i));                     \
      __VA_ARGS__;                                     \
    }                                                  \
  }

// One round: a loop of hits, and before it the empty one.
template <class Empty, class Loop>
void take_turn(Samples& samples, Empty&& empty, Loop&& loop) {
  samples.base.push_back(ns_of(empty) / static_cast<double>(kHits));
  samples.with.push_back(ns_of(loop) / static_cast<double>(kHits));
}
