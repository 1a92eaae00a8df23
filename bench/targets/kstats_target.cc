// A program that records statistics about itself, and prints what that costs, in the lines of
// timing.h.
//
// Times are nanoseconds per record and thread, without and with the record, of which all kinds take
// turns; for kstats-read-1000, of the whole reading. The values change from record to record, over
// four powers of ten.
#include <pinprick/kstats.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "base/heap.h"
#include "ledger/recorded_statistics.h"
#include "timing.h"

namespace {

using pinprick::Kstats;

constexpr uint64_t kRecords = 200'000;

void expect(bool right, const char* what) {
  if (right) return;
  std::cerr << "kstats_target: " << what << "\n";
  std::exit(1);
}

// Values as a program computes them while it records others.
struct Random {
  uint64_t state = 1;
  uint64_t operator()() {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % 1'000'000 + 100;
  }
};
// Values that cost nothing, so that records come one right after the other.
struct Ascending {
  uint64_t last = 0;
  uint64_t operator()() { return ++last & 0x3ff; }
};

template <class Values, class F>
double ns_per_value(F&& use) {
  const double ns = ns_of([&] {
    Values next;
    for (uint64_t i = 0; i < kRecords; ++i) use(next());
  });
  return ns / static_cast<double>(kRecords);
}

// Not a function: a call would be part of the loop that records are compared with.
const auto keep = [](uint64_t value) { asm volatile("" : : "r"(value)); };

// One round of `threads` threads at once, each of which takes its turn with its own base. Adds the
// medians over the threads.
template <class Values, class F>
void take_turn(Samples& samples, int threads, F&& use) {
  std::vector<double> base(static_cast<size_t>(threads)), with(base);
  std::barrier begin(threads);
  const auto work = [&](size_t thread) {
    begin.arrive_and_wait();
    base[thread] = ns_per_value<Values>(keep);
    begin.arrive_and_wait();
    with[thread] = ns_per_value<Values>(use);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, static_cast<size_t>(i));
  work(0);
  for (std::thread& other : others) other.join();
  samples.base.push_back(median(std::move(base)));
  samples.with.push_back(median(std::move(with)));
}

void measure_records() {
  Kstats statistic("bench");
  expect(static_cast<bool>(statistic), "the statistic cannot be made");
  // As a program has it: the compiler knows nothing about the statistic.
  pinprick_kstats* volatile const known = statistic.get();
  pinprick_kstats* const handle = known;
  const auto record = [=](uint64_t value) { pinprick_kstats_record(handle, value); };
  const auto time = [=](uint64_t value) {
    keep(value);
    pinprick_kstats_start(handle);
    pinprick_kstats_end(handle);
  };
  Samples one, two, alone, start_end, stopped;
  for (int run = 0; run < kRuns; ++run) {
    take_turn<Random>(one, 1, record);
    take_turn<Random>(two, 2, record);
    take_turn<Ascending>(alone, 1, record);
    take_turn<Random>(start_end, 1, time);
    expect(statistic.stop(), "the statistic cannot be stopped");
    take_turn<Ascending>(stopped, 1, record);
    expect(statistic.resume(), "the statistic cannot be resumed");
  }
  const auto report_records = [](const char* name, int threads, const Samples& samples) {
    report(name, "pinprick", threads, "records", samples);
  };
  report_records("kstats-record", 1, one);
  report_records("kstats-record", 2, two);
  report_records("kstats-record-alone", 1, alone);
  report_records("kstats-start-end", 1, start_end);
  report_records("kstats-stopped", 1, stopped);
}

void measure_reading() {
  constexpr size_t kStatistics = 1000;
  constexpr int kReadings = 11;
  std::vector<Kstats> all;
  all.reserve(kStatistics);
  for (size_t i = 0; i < kStatistics; ++i) all.emplace_back(("read-" + std::to_string(i)).c_str());
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (uint64_t value = 1; value < 100'000; value *= 2)
        for (Kstats& one : all) one.record(value);
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<double> ns;
  ns.reserve(kReadings);
  for (int i = 0; i < kReadings; ++i)
    ns.push_back(ns_of([] {
      using pinprick::ledger::RecordedFile;
      const auto found = pinprick::ledger::find_recordings(::getpid(), RecordedFile::Access::read);
      expect(found.files.size() == 1, "there is no file");
      const auto read = found.files.front().read();
      expect(read && read->size() == kStatistics, "not all statistics were read");
      expect(read->back().total().count() == uint64_t{4} * 17, "records were lost");
    }));
  report("kstats-read-1000", "pinprick", 1, ns);
}

}  // namespace

int main() {
  pinprick::prepare_heap();  // as the pinprick that reads does
  measure_records();
  measure_reading();
  std::cout << "done" << std::endl;
}
