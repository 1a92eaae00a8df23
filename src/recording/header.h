// The header of a recording.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pinprick::recording {

// The same moment by several clocks, and the rate of the TSC.
struct Clocks {
  uint64_t tsc = 0;
  uint64_t boottime_ns = 0, monotonic_ns = 0, realtime_ns = 0;
  uint64_t ns_multiplier = 0;  // nanoseconds per tick, times 2^32
  // Returns them now. They are read at one moment, as far as that can be.
  static Clocks now();
  // Returns what the clock says when the TSC is this.
  uint64_t boottime_of(uint64_t when_tsc) const { return at(when_tsc, boottime_ns); }
  uint64_t monotonic_of(uint64_t when_tsc) const { return at(when_tsc, monotonic_ns); }

 private:
  uint64_t at(uint64_t when_tsc, uint64_t first_ns) const;
};

struct Header {
  std::string version;  // of the pinprick that has recorded it
  std::string command_line;
  Clocks clocks;
  // The points, as the user wrote them; if `is_regex`, their names are regular expressions.
  std::vector<std::string> patterns;
  bool is_regex = false;
  bool is_tree = false;  // each call has an event at its entry, and one at its return
  bool has_until = false;
  uint64_t after_ns = 0;                   // how long it went on after that hit
  std::optional<uint64_t> slower_ns = {};  // of spans, which are chosen when they are shown
  std::optional<uint64_t> faster_ns = {};
};

}  // namespace pinprick::recording
