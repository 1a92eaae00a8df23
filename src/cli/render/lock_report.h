// The report of `locks`: what is taken and waited for while it measures.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pinprick::cli {

struct LockUse {
  uint64_t taken = 0;
  uint64_t not_taken = 0;  // it was not free for a call that tries, or the time was over
  uint64_t waits = 0, waited_ns = 0, longest_wait_ns = 0;
  uint64_t holds = 0, held_ns = 0, longest_hold_ns = 0;
};

struct LockRow {
  // By who has taken it, or has waited for the condition.
  struct ByStack {
    std::string function;
    std::string stack;  // its callers, the innermost first, with a line end after each
    LockUse use;
  };
  pid_t pid = 0;
  std::string process;
  std::string type;  // mutex, rwlock, condition, lock
  uint64_t address = 0;
  std::string name;   // of the variable, or the object and the offset; empty: it lies in neither
  std::string first;  // of those without a name: the function that took it first
  uint64_t signals = 0;
  LockUse use;
  std::vector<ByStack> by_stack;  // the worst first
};

// Locks that were taken in orders that contradict one another.
struct LockOrder {
  struct Step {
    std::string held, taken;              // locks
    std::string held_stack, taken_stack;  // who has taken each
    pid_t thread = 0;
  };
  pid_t pid = 0;
  std::vector<Step> steps;
};

struct LockReport {
  double seconds = 0;     // since the probes are in
  bool is_final = false;  // there is no later one
  // The worst first: by waiting, or by holding.
  std::vector<LockRow> locks, conditions;
  std::vector<LockOrder> orders;
  bool by_holding = false;
  bool tells_holding = true;  // not if short calls are left out
  uint64_t least_wait_ns = 0;
  uint64_t unknown_releases = 0, unseen_releases = 0;
  // Events of locks, or of stacks of a lock, that are not known, as there were too many others. So
  // it is of orders.
  uint64_t no_room = 0, no_room_for_stacks = 0, no_room_for_orders = 0;
  uint64_t dropped = 0;  // events; if there are any, the figures are unreliable
};

}  // namespace pinprick::cli
