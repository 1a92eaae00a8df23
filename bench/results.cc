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
constexpr double kGrowthLimit = 0.10;
constexpr double kStoppedLimitNs = 1;
constexpr double kSpanOverClockNs = 20;
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

template <class Filter>
const Record* costliest(const std::vector<Record>& records, Filter filter) {
  const Record* worst = nullptr;
  for (const Record& record : records)
    if (filter(record) && (worst == nullptr || record.added_ns() > worst->added_ns()))
      worst = &record;
  return worst;
}

void print_cost_goal(std::string_view what, double limit, const Record* worst) {
  if (worst == nullptr) return;
  print_goal(fmt::format("{} adds at most {:.1f} ns", what, limit), worst->added_ns() <= limit,
             fmt::format("at worst {:.2f} ({}, {} thread{})", worst->added_ns(), worst->name,
                         worst->threads, worst->threads == 1 ? "" : "s"));
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

double median(std::vector<double> values) {
  assert(!values.empty());
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double mean(const std::vector<double>& values) {
  assert(!values.empty());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
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
    if (kernel != nullptr && record.added_ns() > 0)
      times = fmt::format("{:>10.0f} times", kernel->added_ns() / record.added_ns());
    fmt::print("{:<26} {:<9} {:>7} {:>12} {:>12} {:>12}{}\n", record.name, record.engine,
               record.threads, shown(record.base_ns, record.unit), shown(record.ns, record.unit),
               shown(record.added_ns(), record.unit), times);
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
  if (const Record* clock = find("rdtsc", kPinprick, 1); clock != nullptr) {
    print_cost_goal("a span, start and end,", 2 * clock->added_ns() + kSpanOverClockNs,
                    find("span", kPinprick, 1));
    print_cost_goal(
        fmt::format("measuring, with {:.1f} ns for a look at the clock,", clock->added_ns()),
        kLatencyClockReads * clock->added_ns() + kLatencyOverClockNs,
        costliest(records_, is_latency));
  }

  const Record* fastest_growing = nullptr;
  double growth = 0;
  for (const Record& two : records_) {
    const Record* one = find(two.name, kPinprick, 1);
    if (two.threads != 2 || one == nullptr || !(is_count(two) || is_latency(two))) continue;
    const double grown = two.added_ns() / one->added_ns() - 1;
    if (fastest_growing == nullptr || grown > growth) {
      fastest_growing = &two;
      growth = grown;
    }
  }
  if (fastest_growing != nullptr)
    print_goal(fmt::format("on two threads a hit costs at most {:.0f}% more", 100 * kGrowthLimit),
               growth <= kGrowthLimit,
               fmt::format("at worst {:+.1f}% ({})", 100 * growth, fastest_growing->name));
}

void Results::print_limit(std::string_view name, std::string_view what, double limit, double unit,
                          std::string_view unit_name, size_t threads) const {
  const Record* const record = find(name, kPinprick, threads);
  if (record == nullptr) return;
  print_goal(fmt::format("{} at most {} {}", what, limit / unit, unit_name),
             record->added_ns() <= limit, fmt::format("{:.2f}", record->added_ns() / unit));
}

bool Results::write(const std::string& folder) const {
  auto records = nlohmann::json::array();
  for (const Record& record : records_) {
    if (!record.unit.empty()) {
      records.push_back({{"name", record.name},
                         {"engine", record.engine},
                         {"unit", record.unit},
                         {"value", record.ns}});
      continue;
    }
    nlohmann::json out = {{"name", record.name},       {"engine", record.engine},
                          {"threads", record.threads}, {"base_ns", record.base_ns},
                          {"ns", record.ns},           {"added_ns", record.added_ns()}};
    if (record.millions != 0) {
      out["millions_per_second"] = record.millions;
      out["millions_per_second_sd"] = record.millions_sd;
    }
    if (record.in_percent) out["added_percent"] = record.added_percent();
    records.push_back(std::move(out));
  }
  std::ofstream results(folder + "/results.json"), facts(folder + "/facts.json");
  results << records.dump(1) << "\n";
  facts << facts_.dump(1) << "\n";
  return results.flush().good() && facts.flush().good();
}

}  // namespace pinprick::bench
