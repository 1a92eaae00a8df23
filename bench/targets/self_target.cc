// A program that probes itself, and prints what that costs, in the lines of timing.h.
//
// Times are nanoseconds per call and thread, without and with the probe, in turn; for batches
// (register-N and so on), of the whole batch while two threads call the functions. With a wrong
// count or result, it exits with status 1.
#include <pinprick/latency.h>
#include <pinprick/probe.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "timing.h"

extern "C" {
long shape_mov(long);       // shapes.S
long self_two(long, long);  // self_shapes.S
long self_unroomy(long);    // its second instruction is a block of one byte
long self_trapping(long);   // has a breakpoint of its own
extern const int32_t many_table[];
extern const uint64_t many_count;
}

namespace {

using Clock = std::chrono::steady_clock;
using pinprick::Probe;
using pinprick::Registers;
using pinprick::ReturnProbe;

constexpr int kTurns = 11;

template <class T>
T must(pinprick::Result<T, pinprick::Error> result) {
  if (result) return *std::move(result);
  std::cerr << "self_target: " << result.error().message() << "\n";
  std::exit(1);
}

void must(const pinprick::Result<void, pinprick::Error>& result) {
  if (result) return;
  std::cerr << "self_target: " << result.error().message() << "\n";
  std::exit(1);
}

void expect(bool right, const char* what) {
  if (right) return;
  std::cerr << "self_target: " << what << "\n";
  std::exit(1);
}

// The time of one call, as the median over short batches of all threads.
template <class F>
double ns_per_call(int threads, uint64_t calls, F&& call) {
  constexpr int kBatches = 20;
  std::vector<std::vector<double>> ns(static_cast<size_t>(threads));
  std::barrier begin(threads);
  const auto work = [&](size_t thread) {
    begin.arrive_and_wait();
    for (int batch = 0; batch < kBatches; ++batch) {
      const auto before = Clock::now();
      for (uint64_t i = 0; i < calls; ++i) call();
      const std::chrono::duration<double, std::nano> taken = Clock::now() - before;
      ns[thread].push_back(taken.count() / static_cast<double>(calls));
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, static_cast<size_t>(i));
  work(0);
  for (std::thread& other : others) other.join();
  std::vector<double> all;
  for (const auto& one : ns) all.insert(all.end(), one.begin(), one.end());
  return median(std::move(all));
}

// `place` returns the probes, which are removed when its result is destroyed. One thread and two
// take turns.
template <class Call, class Place>
void compare(const std::string& name, uint64_t calls, Call&& call, Place&& place) {
  Samples samples[2];
  for (int run = 0; run < kTurns; ++run)
    for (int threads : {1, 2}) {
      samples[threads - 1].base.push_back(ns_per_call(threads, calls, call));
      const auto probes = place();
      samples[threads - 1].with.push_back(ns_per_call(threads, calls, call));
    }
  for (int threads : {1, 2}) report(name, "pinprick", threads, name, samples[threads - 1]);
}

// One for each thread, so that the hit is measured, and not a contended counter.
thread_local uint64_t hits __attribute__((tls_model("initial-exec")));

PINPRICK_INTEGER_ONLY void count(Registers&) noexcept {
  ++hits;
}
PINPRICK_INTEGER_ONLY void add(long a, long b) noexcept {
  hits += static_cast<uint64_t>(a + b);
}

const auto kCount = pinprick::integer_only<&count>();

void measure_handlers() {
  constexpr uint64_t kCalls = 50'000;
  compare(
      "handler-count", kCalls, [] { shape_mov(1); },
      [] { return must(Probe::place({.where = shape_mov, .pre = kCount})); });
  compare(
      "handler-typed", kCalls, [] { self_two(0, 1); },
      [] {
        return must(Probe::place({.where = self_two, .pre = pinprick::integer_call<&add>()}));
      });
  compare(
      "handler-return", kCalls, [] { shape_mov(1); },
      [] {
        return must(ReturnProbe::place(pinprick::ReturnProbeSpec{
            .where = shape_mov, .on_entry = kCount, .on_return = kCount}));
      });
  compare(
      "handler-vector", kCalls / 10, [] { shape_mov(1); },
      [] { return must(Probe::place({.where = shape_mov, .pre = [](Registers&) { ++hits; }})); });
  compare(
      "self-count", kCalls, [] { shape_mov(1); },
      [] { return must(pinprick::Counter::place(shape_mov)); });
  compare(
      "self-latency", kCalls, [] { shape_mov(1); },
      [] { return must(pinprick::Latency::place(shape_mov)); });
  // Each call ends a span and starts the next.
  compare(
      "self-span", kCalls, [] { shape_mov(1); },
      [] { return must(pinprick::Span::place({.from = shape_mov, .to = shape_mov})); });
  hits = 0;
  {
    const Probe probe = must(Probe::place({.where = shape_mov, .pre = kCount}));
    for (int i = 0; i < 1000; ++i) shape_mov(1);
  }
  expect(hits == 1000, "hits were abandoned");
}

constexpr uint64_t kTraps = 500;

// The round trip through the kernel: a breakpoint of the program, whose handler does nothing. In a
// process of its own, since here the library takes the signal.
class BareSignal {
 public:
  // Before the library does anything.
  BareSignal() {
    expect(::pipe(asked_) == 0 && ::pipe(answered_) == 0, "no pipe");
    child_ = ::fork();
    expect(child_ >= 0, "no process");
    if (child_ == 0) serve();
    ::close(asked_[0]);
    ::close(answered_[1]);
  }
  BareSignal(const BareSignal&) = delete;
  BareSignal& operator=(const BareSignal&) = delete;
  ~BareSignal() {
    ::close(asked_[1]);
    ::close(answered_[0]);
    ::waitpid(child_, nullptr, 0);
  }

  // One round: the function without the breakpoint, and with it.
  void take_turn(Samples& samples) {
    double ns[2] = {};
    expect(::write(asked_[1], "", 1) == 1 && ::read(answered_[0], ns, sizeof(ns)) == sizeof(ns),
           "the process with the bare signal has ended");
    samples.base.push_back(ns[0]);
    samples.with.push_back(ns[1]);
  }

 private:
  [[noreturn]] void serve() {
    ::close(asked_[1]);
    ::close(answered_[0]);
    struct sigaction action = {};
    action.sa_sigaction = [](int, siginfo_t*, void*) {};
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART | SA_ONSTACK;
    ::sigaction(SIGTRAP, &action, nullptr);
    for (char request = 0; ::read(asked_[0], &request, 1) == 1;) {
      const double ns[] = {ns_per_call(1, kTraps, [] { self_unroomy(1); }),
                           ns_per_call(1, kTraps, [] { self_trapping(1); })};
      if (::write(answered_[1], ns, sizeof(ns)) != sizeof(ns)) break;
    }
    ::_exit(0);
  }

  int asked_[2] = {}, answered_[2] = {};
  pid_t child_ = 0;
};

void measure_trap(BareSignal& bare) {
  // Computed, as the planner takes code whose address is taken for a branch target.
  const volatile auto entry = reinterpret_cast<uintptr_t>(&self_unroomy);
  const auto* const address = reinterpret_cast<const void*>(entry + 2);
  Samples ours, signals;
  for (int run = 0; run < kTurns; ++run) {
    bare.take_turn(signals);
    ours.base.push_back(ns_per_call(1, kTraps, [] { self_unroomy(1); }));
    const auto probe =
        must(Probe::place({.where = address, .pre = kCount, .allow_breakpoint = true}));
    expect(probe.placement() == pinprick::Placement::breakpoint, "this is no breakpoint");
    ours.with.push_back(ns_per_call(1, kTraps, [] { self_unroomy(1); }));
  }
  report("trap", "pinprick", 1, "traps", ours);
  report("trap", "signal", 1, "traps", signals);
}

using Function = long (*)(long);

Function many(uint64_t index) {
  const auto base = reinterpret_cast<uintptr_t>(many_table);
  return reinterpret_cast<Function>(base + static_cast<intptr_t>(many_table[index]));
}

uint64_t call_all() {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < many_count; ++i)
    sum = sum * 31 + static_cast<uint64_t>(many(i)(static_cast<long>(i)));
  return sum;
}

// Two threads that call the functions all the time.
class Callers {
 public:
  Callers() = default;
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;
  ~Callers() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void run() const {
    while (!stop_) expect(call_all() == expected_, "a function answers something else");
  }

  const uint64_t expected_ = call_all();
  std::atomic<bool> stop_{false};
  std::thread threads_[2] = {std::thread([this] { run(); }), std::thread([this] { run(); })};
};

constexpr int kRounds = 5;

void measure_many() {
  const Callers callers;
  std::vector<double> placing, removing, unoptimising, optimising;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<pinprick::ProbeSpec> specs;
    for (uint64_t i = 0; i < many_count; ++i) specs.push_back({.where = many(i), .pre = kCount});
    const auto begin = Clock::now();
    auto probes = must(Probe::place(std::move(specs)));
    const auto placed = Clock::now();
    must(pinprick::optimise(false));
    const auto unoptimised = Clock::now();
    must(pinprick::optimise(true));
    const auto optimised = Clock::now();
    Probe::remove(std::move(probes));
    const auto removed = Clock::now();
    placing.push_back(std::chrono::duration<double, std::nano>(placed - begin).count());
    unoptimising.push_back(std::chrono::duration<double, std::nano>(unoptimised - placed).count());
    optimising.push_back(std::chrono::duration<double, std::nano>(optimised - unoptimised).count());
    removing.push_back(std::chrono::duration<double, std::nano>(removed - optimised).count());
  }
  const std::string number = std::to_string(many_count);
  report("register-" + number, "pinprick", 2, placing);
  report("unregister-" + number, "pinprick", 2, removing);
  report("unoptimise-" + number, "pinprick", 2, unoptimising);
  report("optimise-" + number, "pinprick", 2, optimising);
}

// Every second probe is enabled and disabled; all are disarmed and armed.
void measure_enabling() {
  const Callers callers;
  const auto place_from = [](uint64_t first) {
    std::vector<pinprick::ProbeSpec> specs;
    for (uint64_t i = first; i < many_count; i += 2)
      specs.push_back({.where = many(i), .pre = kCount, .enabled = false});
    return must(Probe::place(std::move(specs)));
  };
  auto probes = place_from(0), others = place_from(1);
  const double one_by_one = ns_of([&] {
    for (Probe& probe : probes) must(probe.enable());
  });
  must(Probe::disable(probes));
  std::vector<double> enabling, disabling, disarming, arming;
  for (int round = 0; round < kRounds; ++round) {
    enabling.push_back(ns_of([&] { must(Probe::enable(probes)); }));
    must(Probe::enable(others));
    disarming.push_back(ns_of([] { must(pinprick::disarm_all()); }));
    arming.push_back(ns_of([] { must(pinprick::arm_all()); }));
    disabling.push_back(ns_of([&] { must(Probe::disable(probes)); }));
    must(Probe::disable(others));
  }
  Probe::remove(std::move(probes));
  Probe::remove(std::move(others));
  const std::string half = std::to_string(many_count / 2), number = std::to_string(many_count);
  report("enable-" + half, "pinprick", 2, {one_by_one});
  report("enable-batch-" + half, "pinprick", 2, enabling);
  report("disable-batch-" + half, "pinprick", 2, disabling);
  report("self-disarm-all-" + number, "pinprick", 2, disarming);
  report("self-arm-all-" + number, "pinprick", 2, arming);
}

}  // namespace

int main() {
  BareSignal bare;
  measure_handlers();
  measure_trap(bare);
  measure_many();
  measure_enabling();
  std::cout << "done" << std::endl;
}
