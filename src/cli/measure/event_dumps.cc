#include "cli/measure/event_dumps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "cli/messages/verb_messages.h"
#include "cli/messages/warnings.h"
#include "cli/render/dump_text.h"

namespace pinprick::cli {
namespace {

// "x.rec" is "x.2.rec" for the second dump.
std::string numbered(const std::string& path, size_t number) {
  const size_t name = path.rfind('/') + 1;  // npos + 1 is 0
  const size_t dot = path.rfind('.');
  const bool has_ending = dot != path.npos && dot > name;
  const size_t at = has_ending ? dot : path.size();
  return fmt::format("{}.{}{}", path.substr(0, at), number, path.substr(at));
}

uint64_t ns_since(uint64_t tsc) {
  __extension__ using Wide = unsigned __int128;
  const uint64_t now = read_tsc();
  return static_cast<uint64_t>(Wide{now - std::min(now, tsc)} * ns_multiplier() >> 32);
}

}  // namespace

bool numbers_files(const Options& options) {
  return options.repeat != 0 && !options.output.empty() && !options.json;
}

EventDumps::EventDumps(const Options& options, Renderer& renderer, Interrupts& interrupts)
    : options_(options),
      renderer_(renderer),
      interrupts_(interrupts),
      rest_(options, renderer, interrupts) {
  using Keys = Interrupts::Keys;
  interrupts_.accept_requests(options.has_command() ? Keys::left_alone : Keys::read);
}

bool EventDumps::has_own_files() const {
  return !options_.output.empty() && !options_.json;
}

// Only a dump that a hit makes ends at a hit of --until.
void EventDumps::begin_log(Dump::Cause cause) {
  options_of_dump_ = options_;
  if (cause != Dump::Cause::hit) options_of_dump_.until.clear();
  if (has_own_files()) {
    options_of_dump_.output = numbered(options_.output, written_ + 1);
    auto opened = open_renderer(options_of_dump_, Notes::left_out);
    if (opened)
      own_ = *std::move(opened);
    else
      fail(opened.error());
  }
  log_ = std::make_unique<EventLog>(options_of_dump_, renderer_of_dump(), interrupts_);
}

void EventDumps::begin(Dump::Cause cause) {
  dump_ = Dump{
      .number = written_ + 1, .cause = cause, .recorder = 0, .time_ns = realtime_ns(), .file = {}};
  if (!log_) begin_log(cause);
  if (has_own_files()) dump_->file = options_of_dump_.output;
  log_->triggered();  // there is nothing more to wait for
  if (!has_failed_) renderer_of_dump().begin_dump(*dump_);
  log_->begin_turn(EventTurn::last);
  stopped_tsc_ = read_tsc();
}

void EventDumps::note_trigger(const session::Event& event) {
  auto& known = dump_->trigger;
  if (known && known->tsc <= event.tsc) return;
  known = trigger_of(event);
}

void EventDumps::event(const session::Event& event) {
  if (has_failed_) return;
  if (dump_) {
    if (event.triggers_end) note_trigger(event);
    return log_->event(event);
  }
  if (options_.repeat == 0) return rest_.event(event);
  if (is_full()) return;
  // Before an object is unloaded, its events are handed over outside of dumps.
  if (!log_) begin_log(Dump::Cause::hit);
  log_->event(event);
}

void EventDumps::triggered() {
  was_hit_ = true;
  if (options_.repeat == 0) return rest_.triggered();
  if (until_ns_ == UINT64_MAX) until_ns_ = monotonic_ns() + options_.after_ns;
}

// In the last turn, events of all processes come until finish().
void EventDumps::begin_turn(EventTurn turn) {
  if (options_.repeat == 0)
    rest_.begin_turn(turn);
  else if (turn == EventTurn::last && !is_full() && !dump_)
    begin(until_ns_ != UINT64_MAX ? Dump::Cause::hit : Dump::Cause::end);
}

void EventDumps::go_on() {
  if (options_.repeat == 0) rest_.go_on();
}

void EventDumps::finish() {
  if (options_.repeat == 0) return rest_.finish();
  if (dump_) write();
  if (!was_hit_) renderer_.warning(warning::never_triggered());
}

bool EventDumps::is_full() const {
  return has_failed_ || (options_.repeat == 0 ? rest_.is_full() : hits_ >= options_.repeat);
}

// The dump of the last hit that --repeat wants ends the recording.
bool EventDumps::goes_on() const {
  if (is_full() || dump_->cause == Dump::Cause::end) return false;
  return options_.repeat == 0 || !has_hit() || hits_ + 1 < options_.repeat;
}

// A dump that was asked for may have the hit, too.
bool EventDumps::has_hit() const {
  return dump_->trigger || dump_->cause == Dump::Cause::hit;
}

std::optional<Dump::Cause> EventDumps::due() {
  if (until_ns_ != UINT64_MAX && monotonic_ns() >= until_ns_) return Dump::Cause::hit;
  const auto request = interrupts_.requested();
  if (!request) return std::nullopt;
  return *request == Interrupts::Request::key ? Dump::Cause::key : Dump::Cause::request;
}

void EventDumps::write() {
  if (!has_failed_) log_->finish();
}

bool EventDumps::Figures::shows_idle(size_t functions) const {
  return dumps_.renderer_.shows_idle(functions);
}

// If the dump has a file of its own, this is the last report there.
void EventDumps::Figures::report(const Report& report) {
  for (const Row& row : report.rows) {
    dumps_.dump_->events += row.hits;
    dumps_.dump_->lacks_older_events |= row.lacks_older_events;
    if (row.distribution) dumps_.dump_->dropped += row.distribution->losses[layout::Loss::dropped];
  }
  if (!dumps_.own_.renderer) return;
  Report of_dump = report;
  of_dump.is_final = true;
  dumps_.own_.renderer->report(of_dump);
}

void EventDumps::end() {
  ++written_;
  // A hit itself stops the rings, unless they are to go on for a while.
  const bool is_by_hit = dump_->trigger && options_.after_ns == 0;
  const uint64_t from = is_by_hit ? dump_->trigger->tsc : stopped_tsc_;
  if (goes_on()) dump_->pause_ns = ns_since(from);
  if (has_hit()) {
    until_ns_ = UINT64_MAX;
    ++hits_;
  }
  close_file();
  log_.reset();
  if (!has_failed_) renderer_.dumped(*dump_);
  dump_.reset();
}

void EventDumps::close_file() {
  if (!own_.renderer) return;
  own_.renderer->conclude();
  own_.renderer->flush();
  if (const int error = own_.renderer->error_of_writing(); error != 0) fail(error);
  own_ = OpenRenderer();
}

void EventDumps::fail(int error) {
  has_failed_ = true;
  renderer_.error(cannot_write(options_of_dump_.output, error));
}

}  // namespace pinprick::cli
