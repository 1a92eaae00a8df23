#include "point_cost.h"

#include <fmt/format.h>

#include "target_records.h"

namespace pinprick::bench {
namespace {

constexpr double kOffNs = 0.3, kOnNs = 4, kSwitchNs = 100e6, kColdBytes = 70;

}  // namespace

Result<void, cli::Message> measure_points(const std::string& targets, const Interrupts& interrupts,
                                          Results& results) {
  const size_t first = results.records().size();
  if (auto done = read_records({targets + "/points_target"}, interrupts, results); !done)
    return done;
  results.print_table(first, false);
  results.print_limit("tracepoint-off", "a tracepoint that is off adds", kOffNs, 1, "ns");
  results.print_limit("tracepoint-on", "one with a counting function adds", kOnNs, 1, "ns");
  results.print_limit("tracepoints-switch-10000", "switching 10,000 of them takes", kSwitchNs, 1e6,
                      "ms", 2);
  results.print_limit("tracepoint-cold-bytes", "a site has", kColdBytes, 1,
                      "bytes away from the usual path");
  fmt::print("\n");
  return {};
}

}  // namespace pinprick::bench
