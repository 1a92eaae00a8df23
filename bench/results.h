// What was measured: kept for results.json and facts.json, and shown as tables.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace pinprick::bench {

inline constexpr std::string_view kPinprick = "pinprick";
inline constexpr std::string_view kKernel = "kernel";
inline constexpr std::string_view kSignal = "signal";  // the bare way through a signal handler

// One line of the table. Nanoseconds per call and thread, per request, or of a whole batch.
struct Record {
  std::string name;
  std::string_view engine = kPinprick;
  size_t threads = 1;
  double base_ns = 0;
  double ns = 0;
  // Millions of calls with their probes in a second, of all threads together, and the standard
  // deviation over the runs; 0: was not asked for.
  double millions = 0;
  double millions_sd = 0;
  double added_ns() const { return ns - base_ns; }
};

class Results {
 public:
  void add(Record record) { records_.push_back(std::move(record)); }
  // Whatever is no time: sizes, numbers of functions, percentages.
  template <class T>
  void add_fact(const std::string& name, T value) {
    facts_[name] = value;
  }

  // Null: was not measured.
  const Record* find(std::string_view name, std::string_view engine, size_t threads) const;
  const std::vector<Record>& records() const { return records_; }

  // Records `begin` and later. `ratio`: with a last column that compares with the kernel.
  void print_table(size_t begin, bool ratio) const;
  // A line for each of those that has a throughput, as the kernel's `bench` has it:
  //     uprobe-nop         ( 2 cpus):    6.412 +-  0.031M/s  (   3.206M/s/cpu)
  void print_throughput(size_t begin) const;
  void print_goals() const;
  bool write(const std::string& folder) const;

 private:
  std::vector<Record> records_;
  nlohmann::json facts_ = nlohmann::json::object();
};

// One line: whether a goal was met, and what was seen. Nothing depends on it.
void print_goal(std::string_view goal, bool met, std::string_view seen);

double median(std::vector<double> values);
double mean(const std::vector<double>& values);
// Of a sample; 0 where there is but one value.
double standard_deviation(const std::vector<double>& values);

}  // namespace pinprick::bench
