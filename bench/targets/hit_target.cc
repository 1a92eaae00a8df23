// A program that only calls a function of a known shape (shapes.S), and prints how long a call
// takes. It knows nothing of probes.
//
// A request is a line on stdin:   SHAPE THREADS MILLISECONDS
// and its answer on stdout:       NS CALLS MAIN_CALLS
//
// NS is the time of one call in nanoseconds: the median over batches of calls of all threads. A
// batch is short (a tenth of a millisecond or a little more), so that other programs disturb some
// batches, but not the median. CALLS is the number of all calls, MAIN_CALLS that of the main
// thread, which is one of the THREADS. Ends at the end of stdin.
//
// SHAPE-cold means single calls, each over a millisecond after the last one and with other memory
// in the caches; SHAPE-apart means that the thread sleeps for as long instead. NS is their median,
// including a read of the clock.
#include <sched.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern "C" {
long shape_nop(long);
long shape_push(long);
long shape_ret(long);
long shape_nop5(long);
long shape_mov(long);
long shape_nop_rdtsc(long);
long shape_usdt(long);
}

namespace {

using Clock = std::chrono::steady_clock;
using CallMany = void (*)(uint64_t calls);

// A loop of its own for each shape, so that the call is direct, as most calls are.
template <long (*function)(long)>
void call_many(uint64_t calls) {
  for (; calls != 0; --calls) function(1);
}

// From one function to the other is a span; both together are one call.
void call_pairs(uint64_t calls) {
  for (; calls != 0; --calls) {
    shape_nop(1);
    shape_push(1);
  }
}

// The same ten frames further in.
template <int frames>
[[gnu::noinline]] void call_from(uint64_t calls) {
  if constexpr (frames == 0)
    call_many<shape_nop>(calls);
  else
    call_from<frames - 1>(calls);
  asm volatile("");  // not a tail call
}

const std::map<std::string, CallMany> kShapes = {
    {"nop", call_many<shape_nop>}, {"push", call_many<shape_push>},
    {"ret", call_many<shape_ret>}, {"nop5", call_many<shape_nop5>},
    {"mov", call_many<shape_mov>}, {"nop-rdtsc", call_many<shape_nop_rdtsc>},
    {"pair", call_pairs},          {"usdt", call_many<shape_usdt>},
    {"nop-deep", call_from<10>},
};

// What happens between two single calls.
enum class Pause { flushes, sleeps };
struct Single {
  long (*function)(long);
  Pause pause;
};
const std::map<std::string, Single> kSingleShapes = {{"nop-cold", {shape_nop, Pause::flushes}},
                                                     {"push-cold", {shape_push, Pause::flushes}},
                                                     {"nop-apart", {shape_nop, Pause::sleeps}}};

struct Measured {
  std::vector<double> ns;  // per call, for each batch
  uint64_t calls = 0;
};

double timed_ns(CallMany call_many_times, uint64_t calls) {
  const auto begin = Clock::now();
  call_many_times(calls);
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

Measured measure(CallMany call_many_times, std::chrono::milliseconds time) {
  constexpr double kBatchNs = 100'000;
  constexpr uint64_t kFewestCalls = 16;
  constexpr size_t kFewestBatches = 5;
  const auto deadline = Clock::now() + time;
  Measured measured;
  uint64_t calls = kFewestCalls;
  for (;; calls *= 2) {
    measured.calls += calls;
    if (timed_ns(call_many_times, calls) >= kBatchNs) break;
  }
  while (measured.ns.size() < kFewestBatches || Clock::now() < deadline) {
    measured.ns.push_back(timed_ns(call_many_times, calls) / static_cast<double>(calls));
    measured.calls += calls;
  }
  return measured;
}

// Reads more than the caches hold, so that they contain this memory afterwards.
void flush_caches() {
  static const std::vector<unsigned char> memory(size_t{128} << 20, 1);
  constexpr size_t kLine = 64;
  volatile unsigned char sink = 0;
  for (size_t at = 0; at < memory.size(); at += kLine) sink = memory[at];
  static_cast<void>(sink);
}

Measured measure_singly(const Single& single) {
  const bool flushes = single.pause == Pause::flushes;
  const size_t calls = flushes ? 20 : 100;
  Measured measured;
  auto last = Clock::now();
  while (measured.ns.size() < calls) {
    if (flushes)
      flush_caches();
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    auto begin = Clock::now();  // loads its own code into the caches
    begin = Clock::now();
    while (begin - last < std::chrono::milliseconds(1)) begin = Clock::now();
    single.function(1);
    last = Clock::now();
    measured.ns.push_back(std::chrono::duration<double, std::nano>(last - begin).count());
  }
  measured.calls = calls;
  return measured;
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  return cpus;
}

// One CPU for each thread, as they must run at the same time.
void move_to_cpu(size_t thread) {
  static const std::vector<int> cpus = allowed_cpus();  // before any thread was pinned
  if (cpus.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpus[thread % cpus.size()], &one);
  sched_setaffinity(0, sizeof one, &one);
}

// The results of each thread, the main thread's first.
std::vector<Measured> measure_on_threads(CallMany call_many_times, size_t count,
                                         std::chrono::milliseconds time) {
  std::vector<Measured> each(count);
  std::barrier start(static_cast<ptrdiff_t>(count));
  const auto work = [&](size_t i) {
    move_to_cpu(i);
    start.arrive_and_wait();
    each[i] = measure(call_many_times, time);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < count; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& thread : others) thread.join();
  return each;
}

double median_ns(const std::vector<Measured>& each) {
  std::vector<double> all;
  for (const Measured& one : each) all.insert(all.end(), one.ns.begin(), one.ns.end());
  const auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string shape;
    size_t threads = 0;
    long milliseconds = 0;
    constexpr size_t kMostThreads = 64;
    if (!(words >> shape >> threads >> milliseconds) || threads == 0 || threads > kMostThreads ||
        (!kShapes.contains(shape) && (!kSingleShapes.contains(shape) || threads != 1))) {
      std::cerr << "hit_target: no such request: " << line << "\n";
      return 2;
    }
    const auto each = kSingleShapes.contains(shape)
                          ? std::vector{measure_singly(kSingleShapes.at(shape))}
                          : measure_on_threads(kShapes.at(shape), threads,
                                               std::chrono::milliseconds(milliseconds));
    uint64_t calls = 0;
    for (const Measured& one : each) calls += one.calls;
    std::cout << median_ns(each) << " " << calls << " " << each[0].calls << std::endl;
  }
}
