// The results of measurements: kept for results.json and facts.json, and shown as tables.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "samples.h"

namespace pinprick::bench {

inline constexpr std::string_view kPinprick = "pinprick";
inline constexpr std::string_view kKernel = "kernel";
inline constexpr std::string_view kSignal = "signal";  // a bare signal handler
inline constexpr std::string_view kLttng = "lttng-ust";

// One line of the table: nanoseconds per call and thread, per request, or for a whole batch. With a
// unit, samples are in that unit instead.
struct Record {
  std::string name;
  std::string_view engine = kPinprick;
  size_t threads = 1;
  Samples samples;
  // Names the rounds in which it took turns with other records; empty: with its base alone.
  std::string rounds = {};
  // Millions of probed calls per second, of all threads together, and the standard deviation over
  // the runs; 0 if not measured.
  double millions = 0;
  double millions_sd = 0;
  std::string unit = {};    // empty: nanoseconds
  bool in_percent = false;  // a whole program's run, of which the difference matters in percent

  // Medians; 0 without a base.
  double base() const { return samples.base.empty() ? 0 : median(samples.base); }
  double value() const { return median(samples.with); }
  // Returns what is added to the base; without a base, the value itself.
  Estimate added() const { return estimate(samples.differences()); }
  bool scatters() const;
};

// Returns how many times what `other` adds `one` adds. They have to have taken turns; if not,
// returns nullopt.
std::optional<Estimate> ratio_of(const Record& one, const Record& other);

class Results {
 public:
  void add(Record record) { records_.push_back(std::move(record)); }
  // Values that are not times: sizes, numbers of functions, percentages.
  template <class T>
  void add_fact(const std::string& name, T value) {
    facts_[name] = value;
  }

  // Returns nullptr if it was not measured.
  const Record* find(std::string_view name, std::string_view engine, size_t threads) const;
  const std::vector<Record>& records() const { return records_; }

  // Prints the records from `begin` on. With `ratio`, the last column compares with the kernel.
  void print_table(size_t begin, bool ratio) const;
  // Prints a line for each of those with a throughput, in the format of the kernel's `bench`:
  //     uprobe-nop         ( 2 cpus):    6.412 +-  0.031M/s  (   3.206M/s/cpu)
  void print_throughput(size_t begin) const;
  void print_goals() const;
  // Prints whether what pinprick's record adds is at most `limit`, both shown in units of `unit`.
  // Prints nothing if it was not measured.
  void print_limit(std::string_view name, std::string_view what, double limit, double unit,
                   std::string_view unit_name, size_t threads = 1) const;
  bool write(const std::string& folder) const;

 private:
  std::vector<Record> records_;
  nlohmann::json facts_ = nlohmann::json::object();
};

// Prints a line: whether a goal was met, and the result. Nothing else depends on it.
void print_goal(std::string_view goal, bool met, std::string_view seen);
// The same of what may be at most `limit`, shown in units of `unit`. It neither is met nor is not
// met if the samples scatter around the limit.
void print_goal(std::string_view goal, const Estimate& seen, double limit, double unit = 1,
                std::string_view more = "");

// Formats a figure for people; "scatters" and the interval instead of one that scatters.
std::string shown(const Estimate& value, bool scatters, double unit = 1);

}  // namespace pinprick::bench
