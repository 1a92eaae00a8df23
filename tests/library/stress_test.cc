// Threads run functions of every shape while probes on them come and go. Every result must be
// right, and every hit counted once.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <vector>

#include "library/functions.h"
#include "library/place.h"
#include "pinprick/latency.h"
#include "pinprick/probe.h"

namespace pinprick {
namespace {

constexpr int kThreads = 8;

// How often probes come and go; with TURMOIL_SECONDS in the environment, for that long.
class Rounds {
 public:
  explicit Rounds(int least) : least_(least) {
    if (const char* const text = std::getenv("TURMOIL_SECONDS"))
      until_ += std::chrono::seconds(std::atoi(text));
  }
  bool next() { return round_++ < least_ || std::chrono::steady_clock::now() < until_; }
  int done() const { return round_ - 1; }

 private:
  int least_;
  int round_ = 0;
  std::chrono::steady_clock::time_point until_ = std::chrono::steady_clock::now();
};
constexpr int kRounds = 30;

struct Shape {
  long (*function)(long);
  long added;       // what the function adds to its argument
  uint64_t second;  // offset of its second instruction
};

// The planner takes some addresses wrongly for branch targets; such functions get no jump.
bool can_be_probed(const Shape& shape) {
  return Probe::place({.where = shape.function, .pre = [](Registers&) {}}).ok();
}

// Each shape at each offset to a cache line (stress_shapes.S).
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  constexpr long kAdded[] = {6, 3, 1000, 1, 4105};
  constexpr uint64_t kSecond[] = {4, 2, 7, 1, 3};
  for (size_t shape = 0; shape < std::size(kAdded); ++shape)
    for (size_t offset = 0; offset < 64; ++offset) {
      const size_t index = shape * 64 + offset;
      all.push_back({stress_functions[index], kAdded[shape], kSecond[shape]});
    }
  const size_t made = all.size();
  std::erase_if(all, [](const Shape& shape) { return !can_be_probed(shape); });
  EXPECT_GT(all.size(), made * 9 / 10);
  return all;
}

std::atomic<uint64_t> wrong;

void run(const std::vector<Shape>& all, std::atomic<bool>& stop, std::vector<uint64_t>& calls) {
  for (long value = 1; !stop.load(std::memory_order_relaxed); value = value * 5 % 65537)
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].function(value) != value + all[i].added) ++wrong;
      ++calls[i];
    }
}

class Stress : public testing::Test {
 protected:
  void start() {
    for (int i = 0; i < kThreads; ++i)
      threads_.emplace_back([this, i] { run(shapes_, stop_, calls_[i]); });
  }
  uint64_t finish() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    uint64_t sum = 0;
    for (const auto& calls : calls_)
      for (uint64_t n : calls) sum += n;
    return sum;
  }
  void SetUp() override { wrong = 0; }

  const std::vector<Shape> shapes_ = shapes();
  std::vector<std::vector<uint64_t>> calls_{kThreads, std::vector<uint64_t>(shapes_.size())};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

PINPRICK_INTEGER_ONLY void count(Registers&, void* user) noexcept {
  __atomic_fetch_add(static_cast<uint64_t*>(user), 1, __ATOMIC_RELAXED);
}

TEST_F(Stress, ResultsAreRightWhileProbesComeAndGo) {
  start();
  std::mt19937 random(1);
  uint64_t hits = 0, other_hits = 0, times = 0;
  for (Rounds rounds(kRounds); rounds.next();) {
    std::vector<ProbeSpec> specs;
    std::vector<ReturnProbeSpec> returns;
    std::vector<Where> timed;
    for (const Shape& shape : shapes_) switch (random() % 5) {
        case 0:
          specs.push_back({.where = shape.function, .pre = integer_only<&count>(&hits)});
          break;
        case 1:
          specs.push_back({.where = shape.function, .pre = [&](Registers&) {
                             __atomic_fetch_add(&other_hits, 1, __ATOMIC_RELAXED);
                           }});
          break;
        case 2:
          returns.push_back({.where = shape.function, .on_return = integer_only<&count>(&hits)});
          break;
        case 3:
          timed.emplace_back(shape.function);
          break;
      }
    auto probes = must(Probe::place(std::move(specs)));
    auto latencies = must(Latency::place(timed));
    auto return_probes = must(ReturnProbe::place(std::move(returns)));
    for (const Latency& latency : latencies) times += latency.snapshot().count();
    Latency::remove(std::move(latencies));
    Probe::remove(std::move(probes));
    ReturnProbe::remove(std::move(return_probes));
  }
  EXPECT_GT(finish(), 0u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(hits, 0u);
  EXPECT_GT(other_hits, 0u);
  EXPECT_GT(times, 0u);
}

TEST_F(Stress, EveryCallIsCountedOnceWhileOtherProbesComeAndGo) {
  // The counters stay, so their counts must be exact; the other probes change the same sites.
  std::vector<ProbeSpec> specs;
  std::vector<Where> counted;
  uint64_t hits = 0;
  for (const Shape& shape : shapes_) {
    specs.push_back({.where = shape.function, .pre = integer_only<&count>(&hits)});
    counted.emplace_back(shape.function);
  }
  const auto probes = must(Probe::place(std::move(specs)));
  const auto counters = must(Counter::place(counted));
  const auto latencies = must(Latency::place(counted));
  start();
  uint64_t others = 0;
  for (Rounds rounds(kRounds / 3); rounds.next();) {
    std::vector<ReturnProbeSpec> returns;
    for (const Shape& shape : shapes_)
      returns.push_back({.where = shape.function, .on_return = integer_only<&count>(&others)});
    auto return_probes = must(ReturnProbe::place(std::move(returns)));
    ReturnProbe::remove(std::move(return_probes));
  }
  const uint64_t calls = finish();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(hits, calls);
  uint64_t counts = 0;
  for (const Counter& counter : counters) counts += counter.value();
  EXPECT_EQ(counts, calls);
  uint64_t times = 0;
  for (const Latency& latency : latencies)
    times += latency.snapshot().count() + latency.missed() + latency.unwound();
  EXPECT_EQ(times, calls);
}

TEST_F(Stress, CallsAreCountedOnceWhileJumpsBecomeBreakpointsAndJumpsAgain) {
  std::mt19937 random(1);
  uint64_t hits = 0, inner_hits = 0;
  std::vector<ProbeSpec> specs;
  for (const Shape& shape : shapes_)
    specs.push_back(
        {.where = shape.function, .pre = integer_only<&count>(&hits), .allow_breakpoint = true});
  const auto probes = must(Probe::place(std::move(specs)));
  start();
  for (Rounds rounds(kRounds); rounds.next();) {
    std::vector<ProbeSpec> inner;
    for (const Shape& shape : shapes_)
      if (random() % 4 == 0)
        inner.push_back({.where = inside(shape.function, shape.second),
                         .pre = integer_only<&count>(&inner_hits),
                         .allow_breakpoint = true});
    auto inner_probes = must(Probe::place(std::move(inner)));
    if (rounds.done() % 8 == 0) {
      EXPECT_TRUE(optimise(false).ok());
      EXPECT_TRUE(optimise(true).ok());
    }
    Probe::remove(std::move(inner_probes));
  }
  const uint64_t calls = finish();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(hits, calls);
  EXPECT_GT(inner_hits, 0u);
}

TEST_F(Stress, NoHandlerRunsAfterItsProbeIsRemoved) {
  start();
  for (Rounds rounds(kRounds); rounds.next();) {
    auto alive = std::make_unique<std::atomic<bool>>(true);
    std::atomic<uint64_t> late{0};
    {
      std::vector<ProbeSpec> specs;
      for (size_t i = 0; i < shapes_.size(); i += 7)
        specs.push_back(
            {.where = shapes_[i].function, .pre = [&late, flag = alive.get()](Registers&) {
               if (!*flag) ++late;
             }});
      Probe::remove(must(Probe::place(std::move(specs))));
    }
    *alive = false;
    ASSERT_EQ(late, 0u);
  }
  finish();
  EXPECT_EQ(wrong, 0u);
}

TEST_F(Stress, BreakpointsComeAndGoUnderThreads) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<uint64_t> bad{0};
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      while (!stop)
        if (self_short(5) != 8) ++bad;
    });
  uint64_t hits = 0;
  for (Rounds rounds(kRounds); rounds.next();) {
    const Probe probe = place({.where = inside(self_short, 2),
                               .pre = integer_only<&count>(&hits),
                               .allow_breakpoint = true});
    EXPECT_EQ(self_short(1), 4);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0u);
  EXPECT_GE(hits, uint64_t{kRounds});
}

TEST_F(Stress, AllOfLibcCanBeProbedWhileThreadsStartAndEnd) {
  uint64_t hits = 0;
  const Handler counting = integer_only<&count>(&hits);
  std::vector<Where> found;
  for (const Where& where : must(find_functions("libc:*")))
    if (Probe::place({.where = where, .pre = counting, .enabled = false})) found.push_back(where);
  EXPECT_GT(found.size(), 2000u);

  std::atomic<uint64_t> begun{0};
  std::jthread beginner([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::thread([&] { ++begun; }).join();
  });
  for (Rounds rounds(kRounds / 10); rounds.next();) {
    std::vector<ProbeSpec> specs;
    for (const Where& where : found) specs.push_back({.where = where, .pre = counting});
    auto probes = must(Probe::place(std::move(specs)));
    const uint64_t before = begun;
    while (begun < before + 3) std::this_thread::yield();
    Probe::remove(std::move(probes));
  }
  beginner.request_stop();
  beginner.join();
  EXPECT_GT(hits, begun);
}

}  // namespace
}  // namespace pinprick
