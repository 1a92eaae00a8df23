// Prints the events of all measured processes in the order of time.
//
// They come process by process, and those of one process in the order of time. When a turn has read
// all rings, what is older than its start is printed. Events of the last 10 ms wait for the next turn:
// a virtual CPU may have been away between the clock's reading and the end of the event. One whose
// thread was interrupted while it was recorded, where threads share a ring, may still come later, and
// is printed then.
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
#include "cli/options.h"
#include "cli/render/call_tree.h"
#include "cli/render/renderer.h"
#include "session/events.h"

namespace pinprick::cli {

class EventLog : public session::EventSink {
 public:
  // The arguments must outlive this.
  EventLog(const Options& options, Renderer& renderer, Interrupts& interrupts);

  void event(const session::Event& event) override;
  bool has_room() const override { return bytes_ < kMostBytes; }
  void triggered() override;

  // To be called before the rings are read.
  enum class Turn : bool { one_of_many, last };
  void begin_turn(Turn turn = Turn::one_of_many);
  // Prints what is due, as far as the output takes it without waiting: to be called after all
  // processes were looked after.
  void print_due();
  // Prints what is older, of a recording: all of it has come.
  void print_before(uint64_t tsc);
  // Prints all that is left. Gives up when a signal has come and the output takes nothing.
  void print_all();
  // Are as many due, or printed, as the user wants (--limit), or has the recording come to its end
  // (--until)?
  bool is_full() const;

 private:
  static constexpr size_t kMostBytes = 64 << 20;
  // So many events are printed, or marked as complete, together.
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
  void make_due(uint64_t tsc);
  static size_t size_of_line(const Line& line);
  std::string text_of(Line& line);
  void print(Wait wait);
  bool wait_for_room();
  void give_up(size_t unprinted);

  std::vector<Line> lines_;      // those that are not due yet
  std::deque<std::string> due_;  // texts that wait for the output
  size_t bytes_ = 0;             // which lines_ and due_ take
  std::optional<CallTree> tree_;
  EventSpans spans_;
  uint64_t complete_tsc_ = 0;  // older events have come
  uint64_t recorded_ = 0;    // events
  uint64_t flushed_ns_ = 0;  // when the recording got all there was
  size_t left_;
  bool awaits_trigger_;  // which has not come yet (--until)
  bool is_one_process_;
  uint64_t after_ns_;               // how long the recording goes on then
  uint64_t until_ns_ = UINT64_MAX;  // when it has come to its end, by monotonic_ns()
  uint64_t last_tsc_ = UINT64_MAX;  // later events are not told
  Renderer& renderer_;
  Interrupts& interrupts_;
};

}  // namespace pinprick::cli
