// Threads that call the stress functions all the time, check their results, and count the calls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "library/functions.h"

namespace pinprick {

inline constexpr size_t kStressFunctions = sizeof(stress_functions) / sizeof(*stress_functions);

// Returns false if the function's result is wrong.
inline bool call_stress_function(size_t index, long value) {
  constexpr long kAdded[] = {6, 3, 1000, 1, 4105};
  return stress_functions[index](value) == value + kAdded[index / 64];
}

class Callers {
 public:
  Callers() {
    for (Calls& calls : calls_) threads_.emplace_back([this, &calls] { run(calls); });
  }
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;
  ~Callers() { stop(); }

  void stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // To be called after stop().
  uint64_t calls_of(size_t index) const {
    uint64_t sum = 0;
    for (const Calls& calls : calls_) sum += calls[index];
    return sum;
  }
  uint64_t wrong() const { return wrong_; }

 private:
  using Calls = std::array<uint64_t, kStressFunctions>;

  void run(Calls& calls) {
    for (long value = 1; !stop_.load(std::memory_order_relaxed); value = value * 5 % 65537)
      for (size_t i = 0; i < kStressFunctions; ++i) {
        if (!call_stress_function(i, value)) ++wrong_;
        ++calls[i];
      }
  }

  std::array<Calls, 4> calls_{};
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> wrong_{0};
  std::vector<std::thread> threads_;
};

}  // namespace pinprick
