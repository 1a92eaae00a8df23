// Prints the events of all measured processes in the order of time.
//
// They come CPU by CPU, and process by process. What was read in one turn is printed after the next
// one: an event that is older than that turn has come by then. One whose thread was interrupted
// while it was recorded, where threads share a ring, may still come later, and is printed then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/render/renderer.h"
#include "session/events.h"

namespace pinprick::cli {

class EventLog : public session::EventSink {
 public:
  // The arguments must outlive this.
  EventLog(const Options& options, Renderer& renderer)
      : left_(options.limit == 0 ? SIZE_MAX : options.limit), renderer_(renderer) {}

  void event(const session::Event& event) override;

  // Prints what is due: to be called after all processes were looked after. At the end, prints all.
  void print_due();
  void print_all();
  // Were as many printed as the user wants (--limit)?
  bool is_full() const { return left_ == 0; }

 private:
  struct Line {
    uint64_t tsc = 0;
    std::string text;
  };
  void print_before(uint64_t tsc);

  std::vector<Line> lines_;  // that are not printed yet
  uint64_t looked_tsc_ = 0;  // before the last turn
  size_t left_;
  Renderer& renderer_;
};

}  // namespace pinprick::cli
