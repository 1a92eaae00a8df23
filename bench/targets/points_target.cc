// A program with tracepoints, which prints what they cost, in the lines of timing.h.
//
// Times are nanoseconds per hit, of a loop with an empty asm and of the same loop with the point,
// all of which take turns; for tracepoints-switch-10000, of the whole batch that attaches, or
// detaches, a function at 10,000 points while two threads reach them. tracepoint-cold-bytes is how
// much code a site adds to its function, apart from its nop. With a wrong count, it exits with
// status 1.
#include <pinprick/tracepoint.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <vector>

#include "timing.h"

PINPRICK_POINT_DECLARE(bench, hit, uint64_t);
PINPRICK_POINT_DEFINE(bench, hit);
PINPRICK_POINT_DECLARE(bench, site, int, const char*);
PINPRICK_POINT_DEFINE(bench, site);

extern "C" {
extern pinprick_point many_points[], many_points_end[];  // many_points.S
uint64_t reach_many_points();                            // returns how many were on

// Two functions that differ in their sites alone, each in a section of its own: the linker knows
// where these start and end, and the compiler splits no function of such a section.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the linker's names
extern const char __start_sites[], __stop_sites[], __start_no_sites[], __stop_no_sites[];
}

#define SITES(section_name, name, site)                                                      \
  __attribute__((section(section_name), used, noinline)) int name(int i, const char* text) { \
    site;                                                                                    \
    site;                                                                                    \
    site;                                                                                    \
    site;                                                                                    \
    site;                                                                                    \
    site;                                                                                    \
    site;                                                                                    \
    site;                                                                                    \
    return i;                                                                                \
  }

namespace {

void expect(bool right, const char* what) {
  if (right) return;
  std::cerr << "points_target: " << what << ": " << pinprick_points_error() << "\n";
  std::exit(1);
}

// Three loops that differ in one statement.
HIT_LOOP(empty, asm volatile(""))
HIT_LOOP(plain, PINPRICK_POINT(bench, hit, i))
HIT_LOOP(with_semaphore, PINPRICK_POINT_SDT(bench, hit, i))

constexpr int kSites = 8, kNopBytes = 5;
SITES("no_sites", without_sites, asm volatile("" : "+r"(i), "+r"(text)))
SITES("sites", with_sites,
      asm volatile(""
                   : "+r"(i), "+r"(text));
      PINPRICK_POINT(bench, site, i, text))

void measure_size() {
  const auto added = (__stop_sites - __start_sites) - (__stop_no_sites - __start_no_sites);
  report("tracepoint-cold-bytes", "pinprick", 1, {static_cast<double>(added) / kSites - kNopBytes},
         "bytes");
}

__attribute__((noinline)) void count(void* data, uint64_t) {
  ++*static_cast<uint64_t*>(data);
}

// The parts of a hit: the attached function itself; saving the registers around a call; finding the
// word of this thread.
uint64_t direct_hits = 0;
__attribute__((noinline)) void visit_nothing(const pinprick_point_arguments_bench__hit*) {
  asm volatile("");
}
HIT_LOOP(call_directly, count(&direct_hits, i))
HIT_LOOP(save_registers, PINPRICK_POINT_VISIT_(bench__hit, visit_nothing, i))
HIT_LOOP(find_thread, const pinprick_point_reader reader = pinprick_library_points_read();
         asm volatile(""
                      :
                      : "r"(reader.running), "r"(reader.period)))

// Attaching leaves the other loops as they are, so that each round has all of them.
void measure_hits() {
  struct Measured {
    const char* name;
    void (*loop)();
    bool is_on = false;
    Samples samples = {};
  };
  Measured all[] = {{"tracepoint-off", plain},
                    {"tracepoint-off-semaphore", with_semaphore},
                    {"tracepoint-on", plain, true},
                    {"tracepoint-part-function", call_directly},
                    {"tracepoint-part-registers", save_registers},
                    {"tracepoint-part-thread", find_thread}};
  uint64_t hits = 0;
  for (int run = 0; run < kRuns; ++run)
    for (Measured& one : all) {
      if (one.is_on)
        expect(PINPRICK_POINT_ATTACH(bench, hit, count, &hits, 0) == 0,
               "no function can be attached");
      take_turn(one.samples, empty, one.loop);
      if (one.is_on)
        expect(PINPRICK_POINT_DETACH(bench, hit, count, &hits) == 0,
               "the function is not attached");
    }
  expect(hits == kRuns * kHits, "the function was not called at each hit");
  for (const Measured& one : all) report(one.name, "pinprick", 1, "points", one.samples);
}

void nothing() {}

void measure_switching() {
  constexpr int kSwitches = 11;
  std::vector<pinprick_attachment> all;
  all.reserve(static_cast<size_t>(many_points_end - many_points));
  for (pinprick_point* point = many_points; point != many_points_end; ++point)
    all.push_back({point, nothing, nullptr, 0});
  std::atomic<bool> stop{false};
  constexpr int kThreads = 2;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i)
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
  report("tracepoints-switch-10000", "pinprick", 2, median(on) > median(off) ? on : off);
}

}  // namespace

int main() {
  measure_size();
  measure_hits();
  measure_switching();
  std::cout << "done" << std::endl;
}
