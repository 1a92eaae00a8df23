// Pairs the allocations and frees of all measured processes, as their events come
// (leak_patterns.h), and knows at any time which blocks are left. One thread uses it.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/measure/call_origins.h"
#include "cli/measure/event_order.h"
#include "cli/measure/event_output.h"
#include "cli/measure/outstanding_blocks.h"
#include "cli/options.h"
#include "cli/render/leak_report.h"

namespace pinprick::cli {

class LeakLog : public EventOutput {
 public:
  // The options must outlive this.
  explicit LeakLog(const Options& options);

  void event(const session::Event& event) override;
  void executed(const session::ProcessName& process) override;
  void begin_turn(EventTurn turn) override { order_.begin_turn(turn); }
  void go_on() override;
  void finish() override;

  // Returns what is left of the blocks that are at least so old. What only events of the session
  // say, as how many were dropped, is not in it.
  LeakReport report(uint64_t least_age_ns) const;

 private:
  struct Kept : AllocationEvent {
    bool is_exec = false;
  };
  void apply(const Kept& event);
  bool is_wanted(uint64_t pointer, uint64_t size) const;
  std::vector<LeakRow> rows(uint64_t now_tsc, uint64_t least_age_ns, LeakReport& report) const;

  const Options& options_;
  uint64_t ns_multiplier_;  // nanoseconds per tick, times 2^32
  EventOrder<Kept> order_;
  OutstandingBlocks blocks_;
  CallOrigins origins_;
};

}  // namespace pinprick::cli
