// By which paths the functions of a recording were called, how often, and for how long. Pure; not
// thread-safe.
//
// Where there are entries and returns, as in a tree, calls lie in those that have not returned.
// An event with a stack is a call by that path. For other calls that have a time, ended_calls.h
// tells from their returns which ones they lie in.
//
// All that is kept has a limit, since a recording may be hostile.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "recording/ended_calls.h"
#include "recording/function_table.h"
#include "recording/in_order.h"
#include "recording/path_tree.h"
#include "session/events.h"

namespace pinprick::recording {

class CallPaths {
 public:
  // `ns_multiplier` is nanoseconds per tick, times 2^32, and not 0.
  explicit CallPaths(bool is_tree, uint64_t ns_multiplier = uint64_t{1} << 32)
      : is_tree_(is_tree), ns_multiplier_(ns_multiplier) {}

  // Events come in any order. Those without a time and a stack are left out, except in a tree.
  // Their names must outlive this.
  void add(const session::Event& event);
  // Events that come more than `ticks` after `tsc` are not counted. The earliest of these ends
  // counts.
  void end_after(uint64_t tsc, uint64_t ticks) { waiting_.end_after(tsc, ticks); }
  // As Writer::told_until().
  void told_until(uint64_t tsc);
  // To be called once, at the end. Calls that have not returned last until the last event of their
  // thread.
  void finish();

  const PathTree& tree() const { return tree_; }
  const FunctionTable& functions() const { return functions_; }
  // Returns whether there was a call that has a time.
  bool has_times() const { return has_times_; }

 private:
  struct Kept {
    uint64_t tsc = 0, latency_ns = 0, stack_pointer = 0;
    uint64_t thread = 0;  // differs from those of all other processes
    enum class Of : uint8_t { entry, ret, point, by_stack } of = Of::entry;
    uint32_t function = 0;
    PathTree::Node node = PathTree::kRoot;  // of a stack
  };
  struct Open {
    PathTree::Node node = PathTree::kRoot;
    uint32_t function = 0;
    uint64_t entry_tsc = 0, stack_pointer = 0;
    uint64_t lowest = UINT64_MAX;  // of the stack pointers of this call and those it lies in
  };
  struct Thread {
    uint64_t last_tsc = 0;
    std::vector<Open> open = {};  // the outermost first
  };
  PathTree::Node node_of_stack(std::string_view frames, std::string_view function);
  void take(const Kept& kept);
  // Ends all open calls except for the outermost `remaining` ones.
  void end_calls(Thread& thread, size_t remaining, uint64_t tsc);
  void end_abandoned(Thread& thread, const Kept& kept);
  void take_return(Thread& thread, const Kept& kept, uint64_t last_tsc);
  void take_call(const Kept& kept);

  bool is_tree_, has_times_ = false;
  uint64_t ns_multiplier_;
  FunctionTable functions_;
  PathTree tree_;
  InOrder<Kept> waiting_;
  std::map<uint64_t, Thread> threads_;
  size_t open_ = 0;  // of all threads
  // Each has a node of its own until it has a caller.
  EndedCalls<PathTree::Node> ended_{PathTree::kMostNodes / 2};
};

}  // namespace pinprick::recording
