// How long calls took without the recorded calls in them. Pure; not thread-safe.
//
// A call lies in the call that returns after it on the same thread, if it ended after that one
// began. So calls on different stacks of one thread (coroutines) may be taken for nested ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace pinprick::recording {

class SelfTimes {
 public:
  // Takes the calls of each thread in the order in which they return. `began` and `end` are times
  // in any unit. Returns the time of the call without the calls in it.
  uint64_t take(uint64_t thread, uint64_t began, uint64_t end, uint64_t latency_ns);
  // Returns whether some call lay in another one.
  bool has_inner_calls() const { return has_inner_calls_; }

 private:
  struct Ended {
    uint64_t end = 0, latency_ns = 0;
  };
  void forget_oldest(std::vector<Ended>& ended);

  // By thread: calls that ended, and whose caller has not, as far as is known.
  std::map<uint64_t, std::vector<Ended>> threads_;
  size_t ended_ = 0;  // of all threads
  bool has_inner_calls_ = false;
};

}  // namespace pinprick::recording
