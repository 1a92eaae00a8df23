// Which calls lie in which others, as far as their returns alone show it. Pure; not thread-safe.
//
// A call lies in the call that returns after it on the same thread, if it ended after that one
// began. So calls on different stacks of one thread (coroutines) may be taken for nested ones.
//
// A call is kept until its caller returns. Calls without a recorded caller would add up, so beyond
// a limit the older half is given up, and counts as calls without a caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace pinprick::recording {

// `Kept` is what its user keeps of a call.
template <class Kept>
class EndedCalls {
 public:
  // `most` calls of all threads are kept, and at most kMostOfThread of each.
  explicit EndedCalls(size_t most) : most_(most) {}

  // Takes the calls of each thread in the order in which they return. `began` and `end` are times
  // in any unit. Calls `add_inner` with each call that lies in this one, but for those that lie
  // deeper, and `give_up` with each call that turns out to be, or counts as one, without a caller.
  template <class AddInner, class GiveUp>
  void add(uint64_t thread, uint64_t began, uint64_t end, Kept kept, AddInner&& add_inner,
           GiveUp&& give_up) {
    std::vector<Ended>& ended = threads_[thread];
    for (; !ended.empty() && ended.back().end > began; ended.pop_back(), --size_)
      add_inner(ended.back().kept);
    if (ended.size() >= kMostOfThread) give_up_oldest(ended, (ended.size() + 1) / 2, give_up);
    if (size_ >= most_)
      for (auto& [identity, one] : threads_) give_up_oldest(one, (one.size() + 1) / 2, give_up);
    ended.push_back({end, std::move(kept)});
    ++size_;
  }
  // Gives up all calls. To be called at the end.
  template <class GiveUp>
  void give_up_all(GiveUp&& give_up) {
    for (auto& [identity, one] : threads_) give_up_oldest(one, one.size(), give_up);
  }

 private:
  static constexpr size_t kMostOfThread = 1 << 16;
  struct Ended {
    uint64_t end = 0;
    Kept kept = {};
  };
  template <class GiveUp>
  void give_up_oldest(std::vector<Ended>& ended, size_t count, GiveUp&& give_up) {
    const auto end = ended.begin() + static_cast<std::ptrdiff_t>(count);
    for (auto one = ended.begin(); one != end; ++one) give_up(one->kept);
    ended.erase(ended.begin(), end);
    size_ -= count;
  }

  size_t most_;
  std::map<uint64_t, std::vector<Ended>> threads_;
  size_t size_ = 0;  // calls of all threads
};

}  // namespace pinprick::recording
