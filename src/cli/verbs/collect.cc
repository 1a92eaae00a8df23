// pinprick trace --collect: prints the newest events of a recorder that was killed, and takes its
// probes out.
#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "cli/interrupts.h"
#include "cli/measure/event_log.h"
#include "cli/messages/verb_messages.h"
#include "cli/messages/warnings.h"
#include "cli/object_store.h"
#include "cli/render/dump_text.h"
#include "cli/verbs/session_rows.h"
#include "cli/verbs/verbs.h"
#include "ledger/discovery.h"
#include "session/left_events.h"
#include "session/left_over.h"

namespace pinprick::cli {
namespace {

using ledger::FoundSession;
using session::LeftEvents;

// Passes events on, and notes which hit has ended the recording.
class NoteTrigger : public session::EventSink {
 public:
  NoteTrigger(session::EventSink& sink, Dump& dump) : sink_(sink), dump_(dump) {}
  void event(const session::Event& event) override {
    if (event.triggers_end && !dump_.trigger) dump_.trigger = trigger_of(event);
    sink_.event(event);
  }

 private:
  session::EventSink& sink_;
  Dump& dump_;
};

std::vector<FoundSession> left_sessions(pid_t pid) {
  std::vector<FoundSession> left = ledger::find_sessions(pid).sessions;
  std::erase_if(left, [](const FoundSession& one) { return !session::has_left_events(one); });
  return left;
}

// Why there is nothing to collect.
Message nothing_left(pid_t pid) {
  for (const FoundSession& one : ledger::find_sessions(pid).sessions)
    if (one.controller_lives && session::keeps_newest_events(one))
      return nothing_to_collect(pid, one.journal.header.controller);
  return nothing_to_collect(pid, 0);
}

}  // namespace

Options with_left_events(Options options) {
  options.overwrite = true;
  for (const FoundSession& one : left_sessions(options.pids.front()))
    options.tree |= session::records_tree(one.journal);
  return options;
}

int run_collect(const Options& options, Renderer& renderer) {
  const pid_t pid = options.pids.front();
  const auto left = left_sessions(pid);
  if (left.empty()) return give_up(renderer, nothing_left(pid));
  Interrupts interrupts;
  const session::ProcessName process = {pid, command_of(left.front())};
  const bool is_present =
      left.front().target_lives && session::PresentProgram(pid).has(left.front());
  Dump dump = {.number = 1,
               .cause = Dump::Cause::left,
               .recorder = left.front().journal.header.controller,
               .time_ns = realtime_ns(),
               .file = {}};
  {
    using Program = LeftEvents::Program;
    LeftEvents events(process, is_present ? Program::present : Program::gone, object_store());
    for (const FoundSession& one : left)
      if (auto added = events.add(one); !added) return give_up(renderer, message(added.error()));
    renderer.begin_dump(dump);
    EventLog log(options, renderer, interrupts);
    log.begin_turn(EventTurn::last);
    NoteTrigger sink(log, dump);
    events.hand_over(sink);
    log.finish();
    const session::Report report = events.report();
    for (const session::Row& row : report.rows) {
      dump.events += row.hits;
      dump.dropped += row.distribution->losses[layout::Loss::dropped];
      dump.lacks_older_events |= row.lacks_older_events;
    }
    renderer.dumped(dump);
    renderer.report(report);
    if (events.strange() != 0) renderer.warning(warning::strange_events(events.strange()));
  }
  renderer.conclude();
  renderer.flush();
  // They are still there if they could not be printed, or not all of them.
  if (renderer.is_broken() || interrupts.signal() != 0) return kFailed;
  engine::DisarmReport all;
  for (const FoundSession& one : left) {
    const auto report = session::take_out_left_over(one, object_store());
    if (!report) return give_up(renderer, message(report.error()));
    all += *report;
  }
  renderer.detached(process, all);
  return all.foreign != 0 || all.memory_left ? kFailed : kOk;
}

}  // namespace pinprick::cli
