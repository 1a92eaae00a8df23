// Computes the system's time of events, which were recorded with the TSC.
#pragma once

#include <cstdint>
#include <vector>

namespace pinprick::session {

class EventClock {
 public:
  struct Look {
    uint64_t tsc = 0, time_ns = 0;
  };
  // Looks at both clocks.
  void look();
  // Adds a look, unless one of the clocks has not gone on since the last one.
  void add(const Look& look);
  // Returns the realtime clock at a value of the TSC. Between two looks it goes on evenly, and
  // beyond them at the rate of the TSC. There must have been a look. Later looks do not change the
  // result if one came after the event. So the events of all rings, which are read one after the
  // other, have times in the order of the TSC.
  uint64_t time_of(uint64_t tsc) const;
  uint64_t now_ns() const { return looks_.back().time_ns; }

 private:
  std::vector<Look> looks_;  // both values rise
};

}  // namespace pinprick::session
