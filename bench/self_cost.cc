#include "self_cost.h"

#include <fmt/format.h>

#include <sstream>

#include "child.h"

namespace pinprick::bench {
namespace {

constexpr double kCountNs = 8, kTypedNs = 12, kReturnNs = 25, kTrapRatio = 1.15, kBatchNs = 1e9;
constexpr double kRecordNs = 2, kStoppedNs = 1, kContentionRatio = 1.1, kReadNs = 50e6;
constexpr double kOffNs = 0.3, kOnNs = 4, kSwitchNs = 100e6;

void print_limit(const Results& results, std::string_view name, std::string_view what, double limit,
                 double unit, std::string_view unit_name) {
  const bool alone =
      name.starts_with("handler") || name.starts_with("kstats") || name.starts_with("tracepoint-");
  const Record* const record = results.find(name, kPinprick, alone ? 1 : 2);
  if (record == nullptr) return;
  print_goal(fmt::format("{} at most {} {}", what, limit / unit, unit_name),
             record->added_ns() <= limit, fmt::format("{:.2f}", record->added_ns() / unit));
}

void print_kstats_goals(const Results& results) {
  print_limit(results, "kstats-record", "a record takes", kRecordNs, 1, "ns");
  print_limit(results, "kstats-stopped", "a record on a stopped statistic takes", kStoppedNs, 1,
              "ns");
  print_limit(results, "kstats-read-1000", "reading 1,000 statistics takes", kReadNs, 1e6, "ms");
  const Record* const one = results.find("kstats-record", kPinprick, 1);
  const Record* const two = results.find("kstats-record", kPinprick, 2);
  if (one == nullptr || two == nullptr) return;
  const double ratio = two->added_ns() / one->added_ns();
  print_goal(fmt::format("with two threads at most {} times that", kContentionRatio),
             ratio <= kContentionRatio, fmt::format("{:.3f}", ratio));
}

void print_point_goals(const Results& results) {
  print_limit(results, "tracepoint-off", "a tracepoint that is off adds", kOffNs, 1, "ns");
  print_limit(results, "tracepoint-on", "one with a counting function adds", kOnNs, 1, "ns");
  print_limit(results, "tracepoints-switch-10000", "switching 10,000 of them takes", kSwitchNs, 1e6,
              "ms");
}

void print_goals(const Results& results) {
  print_point_goals(results);
  print_kstats_goals(results);
  print_limit(results, "handler-count", "a counting handler adds", kCountNs, 1, "ns");
  print_limit(results, "handler-typed", "a handler with two arguments adds", kTypedNs, 1, "ns");
  print_limit(results, "handler-return", "entry and return handlers add", kReturnNs, 1, "ns");
  print_limit(results, "register-40000", "placing 40,000 probes takes", kBatchNs, 1e9, "s");
  print_limit(results, "unregister-40000", "removing them takes", kBatchNs, 1e9, "s");
  print_limit(results, "enable-batch-20000", "enabling 20,000 of them takes", kBatchNs, 1e9, "s");
  const Record* const trap = results.find("trap", kPinprick, 1);
  const Record* const bare = results.find("trap", kSignal, 1);
  if (trap == nullptr || bare == nullptr) return;
  const double ratio = trap->added_ns() / bare->added_ns();
  print_goal(fmt::format("a breakpoint adds at most {} times what the signal costs", kTrapRatio),
             ratio <= kTrapRatio, fmt::format("{:.3f}", ratio));
}

}  // namespace

namespace {

Result<void, cli::Message> read_records(const std::string& target, const Interrupts& interrupts,
                                        Results& results) {
  auto child = Child::start({target}, std::nullopt, interrupts);
  if (!child) return fail(child.error());
  for (;;) {
    const auto line = child->read_line_with("");
    if (!line) return fail(line.error());
    if (*line == "done") return {};
    Record record;
    std::string engine;
    double ns = 0;
    std::istringstream(*line) >> record.name >> engine >> record.threads >> record.base_ns >> ns;
    record.engine = engine == kSignal ? kSignal : kPinprick;
    record.ns = ns;
    results.add(std::move(record));
  }
}

}  // namespace

Result<void, cli::Message> measure_self(const std::string& targets, const Interrupts& interrupts,
                                        Results& results) {
  const size_t first = results.records().size();
  for (const char* program : {"/self_target", "/lookup_target", "/kstats_target", "/points_target"})
    if (auto done = read_records(targets + program, interrupts, results); !done) return done;
  results.print_table(first, false);
  print_goals(results);
  fmt::print("\n");
  return {};
}

}  // namespace pinprick::bench
