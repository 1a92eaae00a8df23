// Prints the events of all measured processes in the order of time.
//
// A slow reader of the output holds up nothing but the output: what it does not take waits here,
// and once that is much, events stay in their rings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/interrupts.h"
#include "cli/measure/event_order.h"
#include "cli/measure/event_output.h"
#include "cli/options.h"
#include "cli/render/call_tree.h"
#include "cli/render/renderer.h"
#include "session/events.h"

namespace pinprick::cli {

class EventLog : public EventOutput {
 public:
  // The arguments must outlive this.
  EventLog(const Options& options, Renderer& renderer, Interrupts& interrupts);

  void event(const session::Event& event) override;
  bool has_room() const override { return bytes_ < kMostBytes; }
  void triggered() override;

  // Rings that keep the newest events are read late, so only the last turn has all of them.
  void begin_turn(EventTurn turn) override {
    if (!keeps_newest_ || turn == EventTurn::last) lines_.begin_turn(turn);
    is_last_turn_ = turn == EventTurn::last;
  }
  // Prints what is due, as far as the output takes it.
  void go_on() override;
  // Prints what is older, of a recording: all of it has come.
  void print_before(uint64_t tsc);
  // Prints all that is left. Gives up when a signal has come and the output takes nothing.
  void finish() override;
  // Are as many due, or printed, as the user wants (--limit)? Of a recording, nothing else ends it.
  bool has_enough() const { return left_ == 0; }
  // Are as many due, or printed, as the user wants (--limit), or has the recording come to its end
  // (--until)?
  bool is_full() const override;

 private:
  static constexpr size_t kMostBytes = 64 << 20;
  // Number of events after which those that are complete are printed, or marked.
  static constexpr size_t kOften = 1 << 16;
  // There may be many of them at once. Parts of trees, spans and timelines become text once they
  // are due.
  struct Line {
    uint64_t tsc = 0;
    bool triggers_end = false;
    std::variant<std::string, CallTree::Event, EventSpans::Event, exports::TraceEvent> told = {};
  };
  void record(const session::Event& event);
  void take_chunks(recording::Writer::Rest rest);
  void end_turn_of_recording();
  enum class Wait : bool { no, yes };
  bool make_due(Line& line);
  static size_t size_of_line(const Line& line);
  std::string text_of(Line& line);
  void print(Wait wait);
  bool wait_for_room();
  void give_up(size_t unprinted);

  EventOrder<Line> lines_;       // those that are not due yet
  std::deque<std::string> due_;  // texts that wait for the output
  size_t bytes_ = 0;             // which lines_ and due_ take
  std::optional<CallTree> tree_;
  EventSpans spans_;
  uint64_t events_ = 0;      // that have come
  uint64_t flushed_ns_ = 0;  // when the recording got all there was
  size_t left_;
  bool awaits_trigger_;     // whose event has not come yet (--until)
  uint64_t ns_multiplier_;  // nanoseconds per tick, times 2^32
  bool is_one_process_, keeps_newest_;
  bool is_triggered_ = false;
  bool is_last_turn_ = false;
  uint64_t after_ns_;               // how long the recording goes on then
  uint64_t until_ns_ = UINT64_MAX;  // when it has come to its end, by monotonic_ns()
  uint64_t last_tsc_ = UINT64_MAX;  // later events are not told
  Renderer& renderer_;
  Interrupts& interrupts_;
};

}  // namespace pinprick::cli
