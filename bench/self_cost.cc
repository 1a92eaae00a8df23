#include "self_cost.h"

#include <fmt/format.h>

#include "target_records.h"

namespace pinprick::bench {
namespace {

constexpr double kCountNs = 8, kTypedNs = 12, kReturnNs = 25, kTrapRatio = 1.15, kBatchNs = 1e9;
constexpr double kRecordNs = 2, kStoppedNs = 1, kContentionRatio = 1.1, kReadNs = 50e6;

void print_kstats_goals(const Results& results) {
  results.print_limit("kstats-record", "a record takes", kRecordNs, 1, "ns");
  results.print_limit("kstats-stopped", "a record on a stopped statistic takes", kStoppedNs, 1,
                      "ns");
  results.print_limit("kstats-read-1000", "reading 1,000 statistics takes", kReadNs, 1e6, "ms");
  const Record* const one = results.find("kstats-record", kPinprick, 1);
  const Record* const two = results.find("kstats-record", kPinprick, 2);
  if (one == nullptr || two == nullptr) return;
  if (const auto ratio = ratio_of(*two, *one))
    print_goal(fmt::format("with two threads at most {} times that", kContentionRatio), *ratio,
               kContentionRatio);
}

void print_goals(const Results& results) {
  print_kstats_goals(results);
  results.print_limit("handler-count", "a counting handler adds", kCountNs, 1, "ns");
  results.print_limit("handler-typed", "a handler with two arguments adds", kTypedNs, 1, "ns");
  results.print_limit("handler-return", "entry and return handlers add", kReturnNs, 1, "ns");
  results.print_limit("register-40000", "placing 40,000 probes takes", kBatchNs, 1e9, "s", 2);
  results.print_limit("unregister-40000", "removing them takes", kBatchNs, 1e9, "s", 2);
  results.print_limit("enable-batch-20000", "enabling 20,000 of them takes", kBatchNs, 1e9, "s", 2);
  const Record* const trap = results.find("trap", kPinprick, 1);
  const Record* const bare = results.find("trap", kSignal, 1);
  if (trap == nullptr || bare == nullptr) return;
  if (const auto ratio = ratio_of(*trap, *bare))
    print_goal(fmt::format("a breakpoint adds at most {} times what the signal costs", kTrapRatio),
               *ratio, kTrapRatio);
}

}  // namespace

Result<void, cli::Message> measure_self(const std::string& targets, const Interrupts& interrupts,
                                        Results& results) {
  const size_t first = results.records().size();
  for (const char* program : {"/self_target", "/lookup_target", "/kstats_target"})
    if (auto done = read_records({targets + program}, interrupts, results); !done) return done;
  results.print_table(first, false);
  print_goals(results);
  fmt::print("\n");
  return {};
}

}  // namespace pinprick::bench
