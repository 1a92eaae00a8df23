// A program with very many small functions (many.S). It calls them from two threads, or prints how
// long a call of the first one takes. It knows nothing of probes.
//
// Each request is a line on stdin, each answer a line on stdout:
//
//     call               two threads start to call all functions in turn; answers "calling"
//     rest               they pause; answers the number of rounds that both made together
//     time MILLISECONDS  answers NS CALLS, for calls of the first function by the main thread
//
// Every round must give the same sum as the first: a function that returns something else, for any
// reason, ends the program. Ends at the end of stdin.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern "C" {
extern const int32_t many_table[];
extern const uint64_t many_count;
long many_0(long);
}

namespace {

using Clock = std::chrono::steady_clock;
using Function = long (*)(long);

// One round: a sum that depends on the result of every function.
uint64_t call_all() {
  uint64_t sum = 0;
  const auto base = reinterpret_cast<uintptr_t>(many_table);
  for (uint64_t i = 0; i < many_count; ++i) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the table holds distances, not addresses
    const auto function = reinterpret_cast<Function>(base + static_cast<intptr_t>(many_table[i]));
    sum = sum * 31 + static_cast<uint64_t>(function(static_cast<long>(i)));
  }
  return sum;
}

// Two threads that call the functions, or pause, as requested.
class Callers {
 public:
  Callers() : expected_(call_all()) {}

  void call() {
    calling_ = true;
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { work(); });
  }
  uint64_t rest() {
    calling_ = false;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return rounds_;
  }

 private:
  void work() {
    while (calling_) {
      if (call_all() != expected_) {
        std::cerr << "many_target: the functions answer something else\n";
        std::abort();
      }
      ++rounds_;
    }
  }

  const uint64_t expected_;
  std::atomic<bool> calling_ = false;
  std::atomic<uint64_t> rounds_ = 0;
  std::vector<std::thread> threads_;
};

// The median over batches, which are so short that other programs disturb only some.
std::string time_calls(std::chrono::milliseconds time) {
  constexpr uint64_t kBatch = 20'000;
  std::vector<double> ns;
  for (const auto deadline = Clock::now() + time; ns.empty() || Clock::now() < deadline;) {
    const auto begin = Clock::now();
    for (uint64_t i = 0; i < kBatch; ++i) many_0(1);
    const std::chrono::duration<double, std::nano> taken = Clock::now() - begin;
    ns.push_back(taken.count() / static_cast<double>(kBatch));
  }
  const auto middle = ns.begin() + static_cast<ptrdiff_t>(ns.size() / 2);
  std::nth_element(ns.begin(), middle, ns.end());
  std::ostringstream answer;
  answer << *middle << " " << ns.size() * kBatch;
  return answer.str();
}

}  // namespace

int main() {
  Callers callers;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string request;
    words >> request;
    long milliseconds = 0;
    if (request == "call") {
      callers.call();
      std::cout << "calling" << std::endl;
    } else if (request == "rest") {
      std::cout << callers.rest() << std::endl;
    } else if (request == "time" && words >> milliseconds) {
      std::cout << time_calls(std::chrono::milliseconds(milliseconds)) << std::endl;
    } else {
      std::cerr << "many_target: no such request: " << line << "\n";
      return 2;
    }
  }
  callers.rest();
}
