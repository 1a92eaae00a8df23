// Dumps rings that keep the newest events: prints what they hold, and lets them go on. A hit of
// --until makes a dump with --repeat, and SIGUSR1 and Enter make one in any case. What the rings
// hold at the end is the last dump with --repeat; without it, it is printed as if there were none.
//
// A dump is an EventLog of its own. With -o FILE it has a file of its own, too; with --json, and
// without -o, all are printed where the rest is. One thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/interrupts.h"
#include "cli/measure/event_log.h"
#include "cli/measure/event_output.h"
#include "cli/messages/messages.h"
#include "cli/options.h"
#include "cli/render/renderer.h"
#include "cli/renderers.h"

namespace pinprick::cli {

// Returns whether all results are dumps, and each has a file of its own.
bool numbers_files(const Options& options);

class EventDumps : public EventOutput {
 public:
  // The arguments must outlive this.
  EventDumps(const Options& options, Renderer& renderer, Interrupts& interrupts);

  void event(const session::Event& event) override;
  bool has_room() const override { return true; }
  void triggered() override;
  void begin_turn(EventTurn turn) override;
  void go_on() override;
  void finish() override;
  // Returns whether the recording is over: at the first hit without --repeat, and else after the
  // dump of the last one, or once a dump could not be written.
  bool is_full() const override;

  // Returns why the rings are to be dumped now; nullopt if they are not.
  std::optional<Dump::Cause> due();
  // A dump, in this order: begin() it, stop the rings and hand over what they hold; write() that;
  // report to figures() what happened since the last dump; let the rings go on, if goes_on(), and
  // end() it.
  void begin(Dump::Cause cause);
  void write();
  session::ReportSink& figures() { return figures_; }
  bool goes_on() const;
  void end();
  // Has a dump begun that has not ended?
  bool is_dumping() const { return dump_.has_value(); }
  // Could a dump not be written?
  bool has_failed() const { return has_failed_; }

 private:
  // Adds up what a dump holds, and passes it on to its file.
  class Figures : public session::ReportSink {
   public:
    explicit Figures(EventDumps& dumps) : dumps_(dumps) {}
    bool shows_idle(size_t functions) const override;
    void report(const Report& report) override;

   private:
    EventDumps& dumps_;
  };
  void begin_log(Dump::Cause cause);
  bool has_own_files() const;
  Renderer& renderer_of_dump() { return own_.renderer ? *own_.renderer : renderer_; }
  void note_trigger(const session::Event& event);
  bool has_hit() const;
  void close_file();
  void fail(int error);

  const Options& options_;
  Renderer& renderer_;
  Interrupts& interrupts_;
  EventLog rest_;  // without --repeat: of the events at the end, which are no dump
  // The log of the dump that has begun. It also has events that are handed over before one begins.
  std::unique_ptr<EventLog> log_;
  Options options_of_dump_;  // `own_` may refer to it
  OpenRenderer own_;         // its file, if it has one of its own
  std::optional<Dump> dump_;
  Figures figures_{*this};
  size_t written_ = 0;
  uint64_t hits_ = 0;               // of --until, whose dumps were written
  bool was_hit_ = false;            // the point of --until, ever
  uint64_t until_ns_ = UINT64_MAX;  // when the next dump is due, by monotonic_ns()
  uint64_t stopped_tsc_ = 0;
  bool has_failed_ = false;
};

}  // namespace pinprick::cli
