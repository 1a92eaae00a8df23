// Receives the events of all measured processes, turn by turn. event_log.h prints them.
#pragma once

#include "cli/measure/event_order.h"
#include "session/events.h"

namespace pinprick::cli {

class EventOutput : public session::EventSink {
 public:
  // To be called before the rings of all processes are read.
  virtual void begin_turn(EventTurn turn) = 0;
  // Goes on with what is due, to be called after all processes were looked after. Does not wait
  // for a reader of the output.
  virtual void go_on() = 0;
  // Does so with all that is left, to be called once, after all probes are out.
  virtual void finish() = 0;
  // Returns whether the user wants no more events (--limit, --until).
  virtual bool is_full() const { return false; }
};

}  // namespace pinprick::cli
