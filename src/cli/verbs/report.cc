// pinprick report: shows a recording, as `pinprick trace` would have.
#include <algorithm>
#include <vector>

#include "cli/export_choice.h"
#include "cli/interrupts.h"
#include "cli/measure/event_log.h"
#include "cli/messages/verb_messages.h"
#include "cli/messages/warnings.h"
#include "cli/verbs/report_paths.h"
#include "cli/verbs/verbs.h"
#include "export/format.h"
#include "recording/function_times.h"
#include "recording/reader.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

// Shows events in the order of time.
class ShowEvents : public recording::Sink {
 public:
  ShowEvents(const Options& options, Renderer& renderer, Interrupts& interrupts)
      : options_(options), renderer_(renderer), log_(options, renderer, interrupts) {}

  void event(const session::Event& event) override {
    if (is_wanted(event)) log_.event(event);
  }
  void told_until(uint64_t tsc) override { log_.print_before(tsc); }
  // What comes after the last event that --limit allows is not read.
  bool is_done() const { return options_.limit != 0 && log_.has_enough(); }
  // They have their names from the recording.
  void report(const session::Report& report) override { reports_.push_back(report); }
  std::optional<Message> finish() {
    log_.finish();
    for (const session::Report& one : reports_) renderer_.report(one);
    return std::nullopt;
  }

 private:
  // Trees and spans are chosen from when they are complete.
  bool is_wanted(const session::Event& event) const {
    if (options_.tree || event.span_part || !event.latency_ns) return true;
    return *event.latency_ns >= options_.limits.slower_ns.value_or(0) &&
           *event.latency_ns <= options_.limits.faster_ns.value_or(UINT64_MAX);
  }

  const Options& options_;
  Renderer& renderer_;
  EventLog log_;
  std::vector<session::Report> reports_;
};

class ShowFunctions : public recording::Sink {
 public:
  ShowFunctions(const Options& options, Renderer& renderer)
      : options_(options),
        after_(
            ticks_in(options.after_ns, options.recorded.ns_multiplier.value_or(ns_multiplier()))),
        renderer_(renderer),
        times_(options.recorded.ns_multiplier.value_or(ns_multiplier())) {}

  void event(const session::Event& event) override {
    if (event.triggers_end) times_.end_after(event.tsc, after_);
    times_.add(event);
  }
  void told_until(uint64_t tsc) override { times_.told_until(tsc); }
  bool is_done() const { return false; }
  void report(const session::Report& report) override {
    losses_ += session::losses_of(report.rows);
  }
  std::optional<Message> finish() {
    auto functions = times_.finish();
    const size_t all = functions.size();
    if (options_.top != 0 && all > options_.top) functions.resize(options_.top);
    if (const auto lack = warning::figures_lack(options_.recording, losses_))
      renderer_.warning(*lack);
    renderer_.function_times(functions, all - functions.size());
    return std::nullopt;
  }

 private:
  const Options& options_;
  uint64_t after_;  // ticks that the recording goes on for after the hit of --until
  Renderer& renderer_;
  recording::FunctionTimes times_;
  layout::Losses losses_;
};

template <class Show>
int replay(recording::Reader& reader, Show& sink, const Options& options, Renderer& renderer,
           Interrupts& interrupts) {
  std::optional<Message> damage;
  bool is_done = false;
  for (;;) {
    const auto more = reader.read_chunk(sink);
    if (!more) damage = message(options.recording, more.error());
    is_done = sink.is_done();
    if (!more || !*more || is_done || renderer.is_broken() || interrupts.arrived()) break;
  }
  const std::optional<Message> nothing = sink.finish();
  if (damage)
    renderer.error(*damage);
  else if (nothing)
    renderer.error(*nothing);
  else if (!reader.is_complete() && !is_done && !renderer.is_broken() && interrupts.signal() == 0)
    renderer.warning(warning::recording_without_end());
  renderer.flush();
  return damage ? kFailed : nothing ? nothing->exit : kOk;
}

}  // namespace

Options with_recording(Options options) {
  const auto reader = recording::Reader::open(options.recording);
  if (!reader) return options;
  const recording::Header& header = reader->header();
  options.patterns = header.patterns;
  options.regex = header.is_regex;
  options.tree = header.is_tree;
  if (header.is_tree && options.event_format == EventFormat::ftrace)
    options.event_format = EventFormat::function_graph;
  options.recorded = {header.has_until, header.clocks.ns_multiplier};
  options.after_ns = header.after_ns;
  if (!options.limits.slower_ns) options.limits.slower_ns = header.slower_ns;
  if (!options.limits.faster_ns) options.limits.faster_ns = header.faster_ns;
  return options;
}

int run_report(const Options& options, Renderer& renderer) {
  auto reader = recording::Reader::open(options.recording);
  if (!reader) return give_up(renderer, message(options.recording, reader.error()));
  const bool shows_part = (options.depth != 0 && options.graph.empty()) ||
                          !options.tree_in.empty() || !options.tree_not_in.empty();
  if (shows_part && !reader->header().is_tree)
    return give_up(renderer, recording_without_tree(options.recording));
  const auto& patterns = reader->header().patterns;
  if (options.event_format == EventFormat::ftrace && !reader->header().is_regex &&
      std::ranges::any_of(patterns, select::is_span))
    return give_up(renderer, recording_of_spans(options.recording));
  if (const auto text = contradiction_of_part(options))
    return give_up(renderer, unfit_for_recording(*text));
  Interrupts interrupts;
  if (!options.graph.empty() || (options.functions && exports::format_of(options.output))) {
    ShowPaths paths(options, reader->header(), renderer);
    return replay(*reader, paths, options, renderer, interrupts);
  }
  renderer.replays(reader->header());
  if (options.functions) {
    ShowFunctions functions(options, renderer);
    return replay(*reader, functions, options, renderer, interrupts);
  }
  ShowEvents events(options, renderer, interrupts);
  return replay(*reader, events, options, renderer, interrupts);
}

}  // namespace pinprick::cli
