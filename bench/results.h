// The results of measurements: kept for results.json and facts.json, and shown as tables.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace pinprick::bench {

inline constexpr std::string_view kPinprick = "pinprick";
inline constexpr std::string_view kKernel = "kernel";
inline constexpr std::string_view kSignal = "signal";  // a bare signal handler
inline constexpr std::string_view kLttng = "lttng-ust";

// One line of the table: nanoseconds per call and thread, per request, or for a whole batch. With a
// unit, `ns` is in that unit instead.
struct Record {
  std::string name;
  std::string_view engine = kPinprick;
  size_t threads = 1;
  double base_ns = 0;
  double ns = 0;
  // Millions of probed calls per second, of all threads together, and the standard deviation over
  // the runs; 0 if not measured.
  double millions = 0;
  double millions_sd = 0;
  std::string unit = {};    // empty: nanoseconds
  bool in_percent = false;  // a whole program's run, of which the difference matters in percent
  double added_ns() const { return ns - base_ns; }
  double added_percent() const { return 100 * added_ns() / base_ns; }
};

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

double median(std::vector<double> values);
double mean(const std::vector<double>& values);
// Of a sample; 0 if there is only one value.
double standard_deviation(const std::vector<double>& values);

}  // namespace pinprick::bench
