// What programs that measure themselves have in common. Each prints one line for each measurement,
//
//     NAME ENGINE THREADS BASE VALUE [UNIT]
//
// and a last line `done`. Without a unit, BASE and VALUE are nanoseconds.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string_view>
#include <vector>

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

inline void report(std::string_view name, std::string_view engine, int threads, double base,
                   double value, std::string_view unit = "") {
  std::cout << name << " " << engine << " " << threads << " " << base << " " << value << " " << unit
            << std::endl;
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

// Medians per hit of two loops in turn.
template <class Empty, class Loop>
void compare_hits(std::string_view name, std::string_view engine, int runs, Empty&& empty,
                  Loop&& loop) {
  std::vector<double> base, with;
  for (int run = 0; run < runs; ++run) {
    base.push_back(ns_of(empty) / static_cast<double>(kHits));
    with.push_back(ns_of(loop) / static_cast<double>(kHits));
  }
  report(name, engine, 1, median(base), median(with));
}
