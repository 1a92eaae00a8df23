// The time of events, which tell the TSC.
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
  // The realtime clock at a value of the TSC: between two looks it goes on evenly, and beyond them
  // at the rate of the TSC. There must have been a look. The result does not change with later
  // looks, if there was one after the event: rings are read one after the other, and the events of
  // all are to have times in the order of the TSC.
  uint64_t time_of(uint64_t tsc) const;
  uint64_t now_ns() const { return looks_.back().time_ns; }

 private:
  std::vector<Look> looks_;  // both values rise
};

}  // namespace pinprick::session
