// A program with tracepoints, which prints what they cost: one line for each measurement,
//
//     NAME ENGINE THREADS BASE_NS NS
//
// and a last line `done`. Times are nanoseconds per hit, medians of runs in turn of a loop with an
// empty asm and of the same loop with the point; for tracepoints-switch-10000, of the whole batch
// that attaches, or detaches, a function at 10,000 points while two threads reach them. With a
// wrong count, it exits with status 1.
#include <pinprick/tracepoint.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

PINPRICK_POINT_DECLARE(bench, hit, uint64_t);
PINPRICK_POINT_DEFINE(bench, hit);

extern "C" {
extern pinprick_point many_points[], many_points_end[];  // many_points.S
uint64_t reach_many_points();                            // returns how many were on
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 101;
constexpr uint64_t kHits = 200'000;

void expect(bool right, const char* what) {
  if (right) return;
  std::cerr << "points_target: " << what << ": " << pinprick_points_error() << "\n";
  std::exit(1);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void report(const std::string& name, int threads, double base, double ns) {
  std::cout << name << " pinprick " << threads << " " << base << " " << ns << std::endl;
}

template <class F>
double ns_of(F&& f) {
  const auto begin = Clock::now();
  f();
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

// Three loops that differ in one statement, each at the start of a cache line.
#define LOOP(name, ...)                                \
  __attribute__((noinline, aligned(64))) void name() { \
    for (uint64_t i = 0; i < kHits; ++i) {             \
      asm volatile("" : : "r"(i));                     \
      __VA_ARGS__;                                     \
    }                                                  \
  }
LOOP(empty, asm volatile(""))
LOOP(plain, PINPRICK_POINT(bench, hit, i))
LOOP(with_semaphore, PINPRICK_POINT_SDT(bench, hit, i))

template <class F>
void compare(const std::string& name, F&& loop) {
  std::vector<double> base, with;
  for (int run = 0; run < kRuns; ++run) {
    base.push_back(ns_of(empty) / static_cast<double>(kHits));
    with.push_back(ns_of(loop) / static_cast<double>(kHits));
  }
  report(name, 1, median(base), median(with));
}

void count(void* data, uint64_t) {
  ++*static_cast<uint64_t*>(data);
}

void measure_hits() {
  compare("tracepoint-off", plain);
  compare("tracepoint-off-semaphore", with_semaphore);
  uint64_t hits = 0;
  expect(PINPRICK_POINT_ATTACH(bench, hit, count, &hits, 0) == 0, "no function can be attached");
  compare("tracepoint-on", plain);
  expect(hits == kRuns * kHits, "the function was not called at each hit");
  expect(PINPRICK_POINT_DETACH(bench, hit, count, &hits) == 0, "the function is not attached");
}

void nothing() {}

void measure_switching() {
  constexpr int kSwitches = 11;
  std::vector<pinprick_attachment> all;
  for (pinprick_point* point = many_points; point != many_points_end; ++point)
    all.push_back({point, nothing, nullptr, 0});
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      while (!stop) reach_many_points();
    });
  std::vector<double> on, off;
  for (int run = 0; run < kSwitches; ++run) {
    on.push_back(ns_of([&] {
      expect(pinprick_points_attach(all.data(), all.size()) == 0, "the points cannot be turned on");
    }));
    expect(reach_many_points() == all.size(), "not all points are on");
    off.push_back(ns_of([&] {
      expect(pinprick_points_detach(all.data(), all.size()) == 0,
             "the points cannot be turned off");
    }));
    expect(reach_many_points() == 0, "not all points are off");
  }
  stop = true;
  for (std::thread& one : threads) one.join();
  report("tracepoints-switch-10000", 2, 0, std::max(median(on), median(off)));
}

}  // namespace

int main() {
  measure_hits();
  measure_switching();
  std::cout << "done" << std::endl;
}
