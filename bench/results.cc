#include "results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <fstream>
#include <numeric>
#include <utility>

#include "cli/render/units.h"

namespace pinprick::bench {
namespace {

// What a probe may add to a call. For information: the exit status does not depend on times.
constexpr double kCountLimitNs = 3;
constexpr double kLatencyClockReads = 2;
constexpr double kLatencyOverClockNs = 15;
constexpr double kEventOverClockNs = 5, kGraphOverClockNs = 15;
constexpr double kGrowthLimit = 1.1;
constexpr double kStoppedLimitNs = 1;
constexpr double kOverLatencyNs = 3;  // what is decided at a call's return
constexpr double kRejectedLimitNs = 1.5, kRejectedCallLimitNs = 2, kRecordLimitNs = 5,
                 kKeyLimitNs = 9, kTextLimitNs = 20, kOverRecordNs = 3, kCallerLimitNs = 2,
                 kStackLimitNs = 60;
constexpr double kSpanOverClockNs = 20, kExitsOverClockNs = 6;
constexpr double kColdLimitNs = 1500;  // the most that kstats itself takes in the kernel

// Hits directly one after the other.
bool is_hot(const Record& record) {
  return record.engine == kPinprick && !record.name.ends_with("-cold");
}
bool is_count(const Record& record) {
  return is_hot(record) && record.name.starts_with("uprobe-");
}
bool is_latency(const Record& record) {
  return is_hot(record) && record.name.starts_with("uretprobe-");
}
bool is_by_exits(const Record& record) {
  return is_hot(record) && record.name.starts_with("exits-");
}

template <class Filter>
const Record* costliest(const std::vector<Record>& records, Filter filter) {
  const Record* worst = nullptr;
  for (const Record& record : records)
    if (filter(record) && (worst == nullptr || record.added().middle > worst->added().middle))
      worst = &record;
  return worst;
}

void print_cost_goal(std::string_view what, double limit, const Record* worst) {
  if (worst == nullptr) return;
  print_goal(fmt::format("{} adds at most {:.1f} ns", what, limit), worst->added(), limit, 1,
             fmt::format(" ({}, {} thread{})", worst->name, worst->threads,
                         worst->threads == 1 ? "" : "s"));
}

// Formats a time, if it is long in a larger unit, with the unit.
std::string shown(double ns, const std::string& unit = "") {
  constexpr double kLong = 1e5;
  if (!unit.empty()) return fmt::format("{:.1f} {}", ns, unit);
  return ns < kLong ? fmt::format("{:.2f}", ns) : cli::duration_ns(ns);
}

}  // namespace

void print_goal(std::string_view goal, bool met, std::string_view seen) {
  fmt::print("{:<8} {}: {}\n", met ? "met" : "NOT MET", goal, seen);
}

void print_goal(std::string_view goal, const Estimate& seen, double limit, double unit,
                std::string_view more) {
  const bool is_unclear = scatters(seen, 0, 0) && seen.low <= limit && seen.high > limit;
  fmt::print("{:<8} {}: {}{}\n",
             is_unclear             ? "?"
             : seen.middle <= limit ? "met"
                                    : "NOT MET",
             goal, shown(seen, is_unclear, unit), more);
}

std::string shown(const Estimate& value, bool scatters, double unit) {
  if (!scatters) return fmt::format("{:.2f}", value.middle / unit);
  return fmt::format("scatters, {:.2f} to {:.2f}", value.low / unit, value.high / unit);
}

bool Record::scatters() const {
  constexpr double kLeastNs = 0.05;
  return bench::scatters(added(), base(), unit.empty() ? kLeastNs : 0);
}

std::optional<Estimate> ratio_of(const Record& one, const Record& other) {
  const auto over = one.samples.differences(), under = other.samples.differences();
  if (one.rounds.empty() || one.rounds != other.rounds || over.size() != under.size())
    return std::nullopt;
  std::vector<double> ratios;
  for (size_t i = 0; i < over.size(); ++i) ratios.push_back(over[i] / under[i]);
  return estimate(std::move(ratios));
}

const Record* Results::find(std::string_view name, std::string_view engine, size_t threads) const {
  const auto found = std::find_if(records_.begin(), records_.end(), [&](const Record& record) {
    return record.name == name && record.engine == engine && record.threads == threads;
  });
  return found == records_.end() ? nullptr : &*found;
}

void Results::print_table(size_t begin, bool ratio) const {
  fmt::print("{:<26} {:<9} {:>7} {:>12} {:>12} {:>12}{}\n", "name", "engine", "threads", "base",
             "probed", "added", ratio ? "    kernel adds" : "");
  for (size_t i = begin; i < records_.size(); ++i) {
    const Record& record = records_[i];
    std::string times;
    const Record* kernel =
        record.engine == kPinprick && ratio ? find(record.name, kKernel, record.threads) : nullptr;
    const bool scatters = record.scatters();
    if (kernel != nullptr && !scatters && record.added().middle > 0)
      times = fmt::format("{:>10.0f} times", kernel->added().middle / record.added().middle);
    fmt::print("{:<26} {:<9} {:>7} {:>12} {:>12} {:>12}{}\n", record.name, record.engine,
               record.threads, shown(record.base(), record.unit),
               shown(record.value(), record.unit),
               scatters ? "scatters" : shown(record.added().middle, record.unit), times);
  }
  fmt::print("\n");
}

void Results::print_throughput(size_t begin) const {
  for (const std::string_view engine : {kPinprick, kKernel}) {
    bool is_first = true;
    for (size_t i = begin; i < records_.size(); ++i) {
      const Record& record = records_[i];
      if (record.engine != engine || record.millions == 0) continue;
      if (std::exchange(is_first, false)) fmt::print("engine {}\n", engine);
      fmt::print("{:<18} ({:>2} cpus): {:>8.3f} +- {:>6.3f}M/s  ({:>8.3f}M/s/cpu)\n", record.name,
                 record.threads, record.millions, record.millions_sd,
                 record.millions / static_cast<double>(record.threads));
    }
    if (!is_first) fmt::print("\n");
  }
}

void Results::print_goals() const {
  print_cost_goal("counting", kCountLimitNs, costliest(records_, is_count));
  print_cost_goal("a stopped statistic", kStoppedLimitNs, find("kstats-stopped", kPinprick, 1));
  print_cost_goal("timing a call that comes rarely", kColdLimitNs,
                  find("kstats-cold", kPinprick, 1));
  print_cost_goal("a hit that a condition rejects", kRejectedLimitNs,
                  find("if-false", kPinprick, 1));
  print_cost_goal("a call that a condition rejects", kRejectedCallLimitNs,
                  find("if-false-latency", kPinprick, 1));
  if (const Record* plain = find("latency-beside", kPinprick, 1); plain != nullptr)
    print_cost_goal("a call that is not slow enough", plain->added().middle + kOverLatencyNs,
                    find("slower-rejects", kPinprick, 1));
  print_cost_goal("recording an argument", kRecordLimitNs, find("hist-arg", kPinprick, 1));
  print_cost_goal("counting by a key", kKeyLimitNs, find("by-int", kPinprick, 1));
  print_cost_goal("counting by a text", kTextLimitNs, find("by-string", kPinprick, 1));
  if (const Record* plain = find("hist-arg", kPinprick, 1); plain != nullptr)
    print_cost_goal("recording what an argument leads to", plain->added().middle + kOverRecordNs,
                    find("deref", kPinprick, 1));
  print_cost_goal("counting by the caller", kCallerLimitNs, find("caller", kPinprick, 1));
  print_cost_goal("counting by the stack of ten frames", kStackLimitNs,
                  find("stack-10", kPinprick, 1));
  if (const Record* clock = find("rdtsc", kPinprick, 1); clock != nullptr) {
    const double look = clock->added().middle;
    print_cost_goal("recording an event of two numbers", look + kEventOverClockNs,
                    find("event", kPinprick, 1));
    print_cost_goal("recording a call, entry and return,", 2 * look + kGraphOverClockNs,
                    find("graph", kPinprick, 1));
    print_cost_goal("a span, start and end,", 2 * look + kSpanOverClockNs,
                    find("span", kPinprick, 1));
    print_cost_goal("measuring by exits,", kLatencyClockReads * look + kExitsOverClockNs,
                    costliest(records_, is_by_exits));
    print_cost_goal(fmt::format("measuring, with {:.1f} ns for a look at the clock,", look),
                    kLatencyClockReads * look + kLatencyOverClockNs,
                    costliest(records_, is_latency));
  }

  const Record* fastest_growing = nullptr;
  Estimate growth;
  for (const Record& two : records_) {
    const Record* one = find(two.name, kPinprick, 1);
    if (two.threads != 2 || one == nullptr || !(is_count(two) || is_latency(two))) continue;
    const auto grown = ratio_of(two, *one);
    if (grown && (fastest_growing == nullptr || grown->middle > growth.middle)) {
      fastest_growing = &two;
      growth = *grown;
    }
  }
  if (fastest_growing != nullptr)
    print_goal(fmt::format("on two threads a hit costs at most {} times that", kGrowthLimit),
               growth, kGrowthLimit, 1, fmt::format(" ({})", fastest_growing->name));
}

void Results::print_limit(std::string_view name, std::string_view what, double limit, double unit,
                          std::string_view unit_name, size_t threads) const {
  const Record* const record = find(name, kPinprick, threads);
  if (record == nullptr) return;
  print_goal(fmt::format("{} at most {} {}", what, limit / unit, unit_name), record->added(), limit,
             unit);
}

bool Results::write(const std::string& folder) const {
  auto records = nlohmann::json::array();
  for (const Record& record : records_) {
    if (!record.unit.empty()) {
      records.push_back({{"name", record.name},
                         {"engine", record.engine},
                         {"unit", record.unit},
                         {"value", record.value()}});
      continue;
    }
    const Estimate added = record.added();
    nlohmann::json out = {{"name", record.name},          {"engine", record.engine},
                          {"threads", record.threads},    {"base_ns", record.base()},
                          {"ns", record.value()},         {"rounds", record.samples.with.size()},
                          {"added_low_ns", added.low},    {"added_high_ns", added.high},
                          {"scatters", record.scatters()}};
    if (!record.scatters()) {
      out["added_ns"] = added.middle;
      if (record.in_percent) out["added_percent"] = 100 * added.middle / record.base();
    }
    if (record.millions != 0) {
      out["millions_per_second"] = record.millions;
      out["millions_per_second_sd"] = record.millions_sd;
    }
    records.push_back(std::move(out));
  }
  std::ofstream results(folder + "/results.json"), facts(folder + "/facts.json");
  results << records.dump(1) << "\n";
  facts << facts_.dump(1) << "\n";
  return results.flush().good() && facts.flush().good();
}

}  // namespace pinprick::bench
