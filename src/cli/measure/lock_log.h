// Keeps the book of locks (lock_book.h) of all measured processes, from their events
// (lock_patterns.h), and knows the names of the locks. One thread uses it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/measure/call_origins.h"
#include "cli/measure/event_order.h"
#include "cli/measure/event_output.h"
#include "cli/measure/lock_book.h"
#include "cli/options.h"
#include "cli/render/lock_report.h"

namespace pinprick::cli {

class LockLog : public EventOutput {
 public:
  // The options must outlive this.
  explicit LockLog(const Options& options);

  void event(const session::Event& event) override;
  void executed(const session::ProcessName& process) override;
  void begin_turn(EventTurn turn) override { order_.begin_turn(turn); }
  void go_on() override;
  void finish() override;

  // Returns the processes that have had events.
  std::vector<session::ProcessName> processes() const;

  // What only events of the session say, as how many were dropped, is not in it.
  LockReport report() const;

 private:
  struct Kept : LockEvent {
    bool is_exec = false;
  };
  struct Key {
    pid_t process = 0;
    uint64_t address = 0;
    auto operator<=>(const Key&) const = default;
  };
  void note_name(pid_t process, uint64_t address, std::string_view words);
  void apply(const Kept& event);
  std::string name_of(const LockBook::Lock& lock) const;
  LockRow row_of(const LockBook::Lock& lock, uint64_t now) const;
  LockUse use_of(const LockBook::Use& use) const;
  uint64_t ns_of(uint64_t ticks) const;
  void add_orders(LockReport& report) const;

  const Options& options_;
  uint64_t ns_multiplier_;  // nanoseconds per tick, times 2^32
  EventOrder<Kept> order_;
  LockBook book_;
  CallOrigins origins_;
  std::map<Key, std::string> names_;  // of locks that have one
  std::map<pid_t, std::string> processes_;
};

}  // namespace pinprick::cli
