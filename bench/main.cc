// pinprick-bench TARGETS OUT [hits] [arm] [mass] [redis] [self] [points] [slots] [stops]
//     [files]
//
// Measures, prints tables, and writes OUT/results.json and OUT/facts.json. TARGETS is the folder
// with the programs to be probed. scripts/bench says what is measured, and what the files contain.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>

#include "arm_cost.h"
#include "files_cost.h"
#include "hit_cost.h"
#include "interrupts.h"
#include "mass_cost.h"
#include "point_cost.h"
#include "redis_cost.h"
#include "results.h"
#include "self_cost.h"
#include "slot_designs.h"
#include "stop_cost.h"

namespace pinprick::bench {
namespace {

int fail_with(const cli::Message& message) {
  std::fflush(stdout);
  fmt::print(stderr, "bench: {}\n", message.text);
  return message.exit;
}

int run(const std::string& targets, const std::string& out, const std::set<std::string>& groups) {
  const Interrupts interrupts;
  Results results;
  const auto wanted = [&](const std::string& group) {
    return groups.empty() || groups.contains(group);
  };
  // Finished results are kept, whatever happens to the rest.
  const auto write = [&] {
    return results.write(out) ? int{cli::kOk}
                              : fail_with({"cannot_write", fmt::format("cannot write to {}", out)});
  };
  if (wanted("hits")) {
    fmt::print("One hit, nanoseconds per call and thread\n\n");
    std::fflush(stdout);
    if (auto done = measure_hits(targets + "/hit_target", interrupts, results); !done)
      return fail_with(done.error());
    results.print_table(0, true);
    results.print_throughput(0);
    results.print_goals();
    fmt::print("\n");
    if (const int status = write(); status != cli::kOk) return status;
  }
  if (wanted("arm")) {
    fmt::print("One probe, from the start of pinprick until it is in\n\n");
    std::fflush(stdout);
    if (auto done = measure_arm(PINPRICK, interrupts, results); !done)
      return fail_with(done.error());
    if (const int status = write(); status != cli::kOk) return status;
  }
  if (wanted("mass")) {
    fmt::print("Many probes at once, each on a function of a program that runs\n\n");
    std::fflush(stdout);
    if (auto done = measure_mass(targets, interrupts, results); !done)
      return fail_with(done.error());
    if (const int status = write(); status != cli::kOk) return status;
  }
  if (wanted("stops")) {
    fmt::print("How long a process stands still for one probe\n\n");
    std::fflush(stdout);
    if (auto done = measure_stops(targets, interrupts, results); !done)
      return fail_with(done.error());
    if (const int status = write(); status != cli::kOk) return status;
  }
  if (wanted("self")) {
    fmt::print("Handlers in one's own process, nanoseconds per call and thread\n\n");
    std::fflush(stdout);
    if (auto done = measure_self(targets, interrupts, results); !done)
      return fail_with(done.error());
    if (const int status = write(); status != cli::kOk) return status;
  }
  if (wanted("points")) {
    fmt::print("Tracepoints, nanoseconds per hit\n\n");
    std::fflush(stdout);
    if (auto done = measure_points(targets, interrupts, results); !done)
      return fail_with(done.error());
    if (const int status = write(); status != cli::kOk) return status;
  }
  if (wanted("slots")) {
    fmt::print("Two ways to call a measured function, nanoseconds per call\n\n");
    std::fflush(stdout);
    compare_slot_designs(results);
    fmt::print("\n");
    if (const int status = write(); status != cli::kOk) return status;
  }
  if (wanted("files")) {
    fmt::print("Every process that executes or loads a file\n\n");
    std::fflush(stdout);
    if (auto done = measure_files(PINPRICK, targets, interrupts, results); !done)
      return fail_with(done.error());
    if (const int status = write(); status != cli::kOk) return status;
  }
  if (wanted("redis")) {
    fmt::print("redis-server: probes on its functions, and its work with them\n\n");
    std::fflush(stdout);
    if (auto done = measure_redis(interrupts, results); !done) return fail_with(done.error());
  }
  return write();
}

}  // namespace
}  // namespace pinprick::bench

int main(int argc, char** argv) {
  const std::set<std::string> groups(argv + std::min(argc, 3), argv + argc);
  const bool known = std::all_of(groups.begin(), groups.end(), [](const std::string& group) {
    return group == "hits" || group == "arm" || group == "mass" || group == "redis" ||
           group == "self" || group == "points" || group == "slots" || group == "stops" ||
           group == "files";
  });
  if (argc < 3 || !known) {
    fmt::print(stderr,
               "usage: pinprick-bench TARGETS OUT [hits] [arm] [mass] [redis] [self] [points] "
               "[slots] [stops] [files]\n");
    return pinprick::cli::kUsage;
  }
  return pinprick::bench::run(argv[1], argv[2], groups);
}
