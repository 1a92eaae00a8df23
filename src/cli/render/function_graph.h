// Lines as the kernel's function graph has them (trace_functions_graph.c):
//
//      1)               |  take() {
//      1)   1.382 us    |    lookupKey();
//      1) + 12.311 us   |  }
//
// Where a CPU goes on with another thread, lines say so. Pure; for one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace pinprick::cli {

// Returns microseconds in seven digits, as the kernel prints them: `1.382 us    `.
std::string graph_duration(uint64_t ns);

// Returns the mark for a duration, as the kernel has it: + for more than 10 us, ! for more than
// 100 us, # 1 ms, * 10 ms, @ 100 ms, and $ 1 s.
char duration_mark(uint64_t ns);

class FunctionGraph {
 public:
  struct Thread {
    std::optional<uint32_t> cpu = {};  // nullopt: it is not known
    int number = 0;
    std::string_view name;
  };

  // The column of the CPU has room for the highest number of `cpus` CPUs.
  explicit FunctionGraph(uint32_t cpus) : cpu_digits_(std::to_string(cpus - 1).size()) {}

  static std::string heading();
  // Returns the line, with those of a change of the thread before it.
  std::string line(const Thread& thread, std::optional<uint64_t> latency_ns, size_t depth,
                   std::string_view text);

 private:
  std::string cpu_column(std::optional<uint32_t> cpu) const;

  struct Shown {
    int number = 0;
    std::string name;
  };
  size_t cpu_digits_;
  std::map<std::optional<uint32_t>, Shown> last_;  // the thread of each CPU's last line
};

}  // namespace pinprick::cli
