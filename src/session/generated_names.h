// Names of code that a process has generated, from the file in which its runtime lists that for
// perf: /tmp/perf-PID.map, with a line `START SIZE NAME` for each function, in hexadecimal.
//
// Not thread-safe. The file is foreign: its first 256 MB are read if it belongs to the process's
// user or to root, and malformed lines are skipped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/fd.h"

namespace pinprick::session {

// Code that was generated, by address. Pure.
class GeneratedCode {
 public:
  struct Function {
    uint64_t size = 0;
    std::string name;
  };

  // Adds the functions of these whole lines. One that overlaps older ones has taken their place.
  void add_lines(std::string_view lines);
  // Returns the function there, and where it starts; nullptr if there is none.
  const std::pair<const Address, Function>* find(Address address) const;
  size_t size() const { return functions_.size(); }

 private:
  static constexpr size_t kMostFunctions = 1 << 20;  // some 200 MB
  void add(Address start, uint64_t size, std::string_view name);
  std::map<Address, Function> functions_;
};

class GeneratedNames {
 public:
  explicit GeneratedNames(pid_t pid) : pid_(pid) {}

  // Opens the file, if there is one now: what it has can be read after the process has ended.
  void open();
  // The same as that of GeneratedCode. If it knows none, reads what was appended to the file since.
  const std::pair<const Address, GeneratedCode::Function>* find(Address address);

 private:
  bool read_more();

  pid_t pid_;
  Fd file_;
  uint64_t read_ = 0;          // bytes, up to the end of a line
  std::vector<uint8_t> tail_;  // the last of them
  GeneratedCode code_;
};

}  // namespace pinprick::session
