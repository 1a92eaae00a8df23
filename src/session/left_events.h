// LeftEvents: the newest events of a recorder that was killed, which are in the rings of its
// session files. The process that it recorded may have ended, too.
//
// What the files say was written by any process of the session: all of it is checked. Stops the
// rings, and nothing else. One thread uses it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "action/event_form.h"
#include "base/result.h"
#include "engine/session.h"
#include "image/store/object_store.h"
#include "ledger/discovery.h"
#include "ledger/newest_events.h"
#include "session/code_names.h"
#include "session/event_clock.h"
#include "session/event_values.h"
#include "session/events.h"
#include "session/report.h"
#include "session/thread_commands.h"
#include "target/memory.h"

namespace pinprick::session {

// Do its rings keep the newest events, and may they have some?
bool keeps_newest_events(const ledger::FoundSession& found);
// The same, of one whose recorder is gone, and will not tell them.
bool has_left_events(const ledger::FoundSession& found);
// Was it to show which calls lie within which (--tree)?
bool records_tree(const layout::Session& journal);

class LeftEvents {
 public:
  // Where the process is gone, or runs another program, code has no names. The store must outlive
  // this.
  enum class Program : bool { gone, present };
  LeftEvents(ProcessName process, Program program, image::ObjectStore& store);

  // Takes the session over, and stops its rings. Fails if another pinprick holds the file, or if it
  // is not trusted; the others are told all the same.
  Result<void, ledger::SessionError> add(const ledger::FoundSession& found);
  // Hands over the events of all, in the order of time. To be called once.
  void hand_over(EventSink& sink);

  // Known once they were handed over: the events of each probe that has any, which the report names
  // as long as this lives.
  Report report() const;
  // Events of no probe: the process has written something else there.
  uint64_t strange() const { return strange_; }

 private:
  struct OfProbe {
    const action::EventForm* form = nullptr;  // null: it has no events
    engine::ProbeName name = {};
    bool has_return_event = false;
    uint64_t events = 0;
  };
  struct Rings {
    ledger::SessionFile file;
    layout::Session journal;
    std::map<std::string_view, std::optional<action::EventForm>> forms = {};  // by their texts
    std::vector<OfProbe> probes = {};
    EventValues values = {};
    std::optional<ledger::NewestEvents> next = {};
  };
  class Tables;
  static void name_probes(Rings& rings);
  void tell(Rings& rings, const ledger::Event& event, EventSink& sink);
  static void add_rows(const Rings& rings, std::vector<Row>& rows);

  ProcessName process_;
  std::optional<target::Memory> memory_;  // of the process, if the program is there
  std::optional<CodeNames> code_;
  ThreadCommands commands_;
  EventClock clock_;
  std::deque<Rings> all_;  // their addresses stay
  uint64_t strange_ = 0;
  uint64_t last_ns_ = 0;  // the time of the last event
};

}  // namespace pinprick::session
