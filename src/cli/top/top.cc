// pinprick top: draws the rows of a source on the terminal, and does what keys and signals ask.
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/clock.h"
#include "cli/interrupts.h"
#include "cli/measure/event_log.h"
#include "cli/measure/measured_processes.h"
#include "cli/messages/verb_messages.h"
#include "cli/object_store.h"
#include "cli/render/text.h"
#include "cli/top/keys.h"
#include "cli/top/locale.h"
#include "cli/top/measurement_rows.h"
#include "cli/top/model.h"
#include "cli/top/notes.h"
#include "cli/top/painter.h"
#include "cli/top/screen.h"
#include "cli/top/screen_file.h"
#include "cli/top/screen_signals.h"
#include "cli/top/statistic_rows.h"
#include "cli/top/terminal.h"
#include "cli/verbs/verbs.h"
#include "session/timed_calls.h"

namespace pinprick::cli {
namespace top {
namespace {

constexpr uint64_t kNever = UINT64_MAX;

class Top {
 public:
  // The arguments must outlive this.
  Top(const Options& options, Interrupts& interrupts, RowSource& source, Terminal& terminal,
      Notes& notes)
      : options_(options),
        interrupts_(interrupts),
        source_(source),
        terminal_(terminal),
        notes_(notes),
        model_(options.all, options.patterns.empty() ? RowKind::statistics : RowKind::timed),
        painter_(Output::standard_output(options.color).is_colored()) {}

  Top(const Top&) = delete;
  Top& operator=(const Top&) = delete;
  // Makes the terminal what it was before.
  ~Top() { terminal_.leave(); }

  // Returns when there is a reason to end: `q`, a signal, the duration, or that the terminal is
  // gone.
  void run();

 private:
  void look_after();
  void read_source();
  void read_calls(pid_t pid);
  void watch_foreground();
  void take_signals();
  void take_keys(const std::vector<Key>& keys);
  void read_terminal(bool is_readable);
  void suspend();
  void write_file();
  void draw();
  void wait(uint64_t until_ns);
  uint64_t after(double seconds) const;

  const Options& options_;
  Interrupts& interrupts_;
  RowSource& source_;
  Terminal& terminal_;
  Notes& notes_;
  ScreenSignals signals_;
  Model model_;
  Painter painter_;
  KeyDecoder keys_;
  const bool unicode_ = locale_is_utf8();

  const uint64_t start_ns_ = monotonic_ns();
  uint64_t look_again_ns_ = 0;
  uint64_t next_reading_ns_ = 0;
  uint64_t escape_ns_ = kNever;  // when an incomplete key is given up
  bool has_terminal_ = false;    // pinprick is in the foreground
  bool is_stale_ = true;         // the screen has to be drawn
  bool ends_ = false;
};

uint64_t Top::after(double seconds) const {
  return start_ns_ + static_cast<uint64_t>(std::llround(seconds * 1e9));
}

void Top::look_after() {
  const uint64_t now = monotonic_ns();
  look_again_ns_ = source_.all_ended() ? kNever : now + source_.look_after();
  for (const pid_t pid : source_.ended()) {
    if (model_.processes().contains(pid) && model_.processes().at(pid).has_ended) continue;
    model_.set_ended(pid);
    next_reading_ns_ = now;  // the last one
  }
  if (std::string note = notes_.take_last_line(); !note.empty()) {
    model_.set_note(std::move(note));
    is_stale_ = true;
  }
}

// Takes the calls of all owners, as the verb `calls` does.
void Top::read_calls(pid_t pid) {
  session::WantedCalls wanted;
  wanted.with_callers = false;
  wanted.for_each_owner = true;
  const auto found = session::timed_calls(pid, object_store(), wanted);
  model_.set_calls(pid, found ? found->calls : std::vector<session::TimedCall>());
}

// Intervals that have passed meanwhile are left out: if readings take longer than the interval,
// keys would never be noticed.
void Top::read_source() {
  const double now_s = static_cast<double>(monotonic_ns() - start_ns_) / 1e9;
  source_.read([&](const session::Report& report) {
    model_.update(report, now_s);
    read_calls(report.process.pid);
  });
  model_.settle();
  is_stale_ = true;
  const double passed = static_cast<double>(monotonic_ns() - start_ns_) / 1e9;
  next_reading_ns_ =
      source_.all_ended()
          ? kNever
          : after((std::floor(passed / options_.interval_s) + 1) * options_.interval_s);
}

// A job in the background neither draws nor reads keys. It goes on looking after the processes.
void Top::watch_foreground() {
  const bool had_terminal = std::exchange(has_terminal_, terminal_.is_foreground());
  if (!has_terminal_ || had_terminal) return;
  terminal_.enter();
  painter_.forget();
  is_stale_ = true;
}

void Top::suspend() {
  if (!source_.can_be_left_alone()) {
    model_.set_note(options_.budget != 0 ? cannot_suspend_with_budget() : cannot_suspend());
    is_stale_ = true;
    return;
  }
  terminal_.leave("pinprick top is suspended: the probes stay in, and the program runs on\r\n");
  has_terminal_ = false;
  signals_.suspend();
  look_again_ns_ = 0;
}

void Top::take_signals() {
  while (const auto signal = signals_.take()) {
    if (*signal == SIGTSTP) suspend();
    if (*signal == SIGCONT) has_terminal_ = false;  // a shell may have changed its modes
    if (*signal == SIGWINCH) painter_.forget();
    is_stale_ = true;
  }
}

void Top::write_file() {
  const auto written = write_screen(top::draw(model_, terminal_.size(), unicode_));
  model_.set_note(written ? screen_written(*written)
                          : screen_not_written(written.error().path, written.error().error.number));
}

void Top::take_keys(const std::vector<Key>& keys) {
  for (const Key& key : keys) {
    switch (model_.press(key)) {
      case Request::quit:
        ends_ = true;
        break;
      case Request::write:
        write_file();
        break;
      case Request::redraw:
        painter_.forget();
        break;
      case Request::none:
        break;
    }
    is_stale_ = true;
  }
}

void Top::read_terminal(bool is_readable) {
  constexpr uint64_t kEscapeNs = 50'000'000;
  if (is_readable) {
    const auto bytes = terminal_.read();
    if (!bytes) {
      ends_ = true;
      return;
    }
    take_keys(keys_.feed(*bytes));
    escape_ns_ = keys_.is_waiting() ? monotonic_ns() + kEscapeNs : kNever;
  }
  if (monotonic_ns() < escape_ns_) return;
  escape_ns_ = kNever;
  take_keys(keys_.give_up_waiting());
}

void Top::draw() {
  // A terminal that has not taken the last screen yet gets a newer one later.
  if (!has_terminal_ || !is_stale_ || terminal_.has_unsent()) return;
  const ScreenSize size = terminal_.size();
  model_.set_page(rows_on(model_, size));
  terminal_.write(painter_.paint(top::draw(model_, size, unicode_)));
  is_stale_ = false;
}

// Waits until something happens, and deals with what the terminal sends.
void Top::wait(uint64_t until_ns) {
  std::vector<pollfd> descriptors = {{interrupts_.descriptor(), POLLIN, 0},
                                     {signals_.descriptor(), POLLIN, 0}};
  const auto events = static_cast<short>(POLLIN | (terminal_.has_unsent() ? POLLOUT : 0));
  const size_t terminal = descriptors.size();
  descriptors.push_back({has_terminal_ ? terminal_.descriptor() : -1, events, 0});
  for (const int descriptor : source_.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
  const uint64_t now = monotonic_ns();
  const uint64_t left_ns = until_ns - std::min(now, until_ns);
  constexpr uint64_t kSecond = 1'000'000'000;
  const timespec timeout = {static_cast<time_t>(left_ns / kSecond),
                            static_cast<long>(left_ns % kSecond)};
  if (::ppoll(descriptors.data(), descriptors.size(), &timeout, nullptr) < 0) return;
  const short happened = descriptors[terminal].revents;
  if ((happened & POLLOUT) != 0) terminal_.flush();
  read_terminal((happened & (POLLIN | POLLHUP | POLLERR)) != 0);
  const auto is_ready = [](const pollfd& one) { return one.revents != 0; };
  if (std::any_of(descriptors.begin() + static_cast<std::ptrdiff_t>(terminal) + 1,
                  descriptors.end(), is_ready))
    look_again_ns_ = 0;
}

void Top::run() {
  const uint64_t deadline = options_.duration_s > 0 ? after(options_.duration_s) : kNever;
  read_source();  // to know all functions
  for (;;) {
    watch_foreground();
    draw();
    wait(std::min({deadline, next_reading_ns_, look_again_ns_, escape_ns_}));
    if (ends_ || interrupts_.arrived() || monotonic_ns() >= deadline) break;
    take_signals();
    if (monotonic_ns() >= look_again_ns_) look_after();
    if (monotonic_ns() >= next_reading_ns_) read_source();
  }
}

int run_on_screen(const Options& options, Terminal& terminal) {
  Notes notes;
  const Output data = Output::standard_output(options.color);
  TextRenderer renderer(data, Output(notes.stream(), options.color), options.pids.size() > 1,
                        options.all, options.top, "function");
  Interrupts interrupts;
  EventLog log(options, renderer, interrupts);
  MeasuredProcesses measured(options, renderer, interrupts, log);
  if (auto begun = measured.begin(); !begun) return measured.fail_with(begun.error());
  MeasurementRows source(measured);
  notes.keep();
  Top(options, interrupts, source, terminal, notes).run();
  notes.release();
  measured.end();
  return measured.conclude();
}

int run_on_screen(const Options& options, Terminal& terminal, StatisticRows& source) {
  Notes notes;
  Interrupts interrupts;
  notes.keep();
  Top(options, interrupts, source, terminal, notes).run();
  notes.release();
  return kOk;
}

// Each interval, until a signal, the duration, or the end of all processes.
int run_as_tables(const Options& options, Renderer& renderer, StatisticRows& source) {
  Interrupts interrupts;
  const uint64_t start = monotonic_ns();
  const auto after = [&](double seconds) {
    return start + static_cast<uint64_t>(std::llround(seconds * 1e9));
  };
  const uint64_t deadline = options.duration_s > 0 ? after(options.duration_s) : kNever;
  bool is_interrupted = false;
  while (!is_interrupted && !source.all_ended()) {
    // Intervals that have passed meanwhile are left out.
    const double passed = static_cast<double>(monotonic_ns() - start) / 1e9;
    const double intervals = std::floor(passed / options.interval_s) + 1;
    const uint64_t next = std::min(deadline, after(options.interval_s * intervals));
    do {
      const uint64_t pause = std::min(source.look_after(), next - std::min(next, monotonic_ns()));
      pollfd signal = {interrupts.descriptor(), POLLIN, 0};
      ::poll(&signal, 1, static_cast<int>(pause / 1'000'000) + 1);
      is_interrupted = interrupts.arrived();
    } while (!is_interrupted && monotonic_ns() < next);
    source.read([&](const session::Report& report) { renderer.report(report); });
    renderer.flush();
    if (renderer.is_broken()) return kFailed;
    if (monotonic_ns() >= deadline) break;
  }
  return kOk;
}

int run_on_statistics(const Options& options, Renderer& renderer, Terminal* terminal) {
  StatisticRows source(options.pids);
  if (!source.has_any()) {
    for (const pid_t pid : options.pids)
      if (const auto why = why_no_statistics(pid)) return give_up(renderer, refused_command(*why));
    return give_up(renderer, no_statistics());
  }
  return terminal != nullptr ? run_on_screen(options, *terminal, source)
                             : run_as_tables(options, renderer, source);
}

}  // namespace
}  // namespace top

int run_top(const Options& options, Renderer& renderer) {
  const auto terminal = options.json || !options.output.empty() ? nullptr : top::Terminal::open();
  if (!terminal && !options.patterns.empty()) return run_watch(options, renderer);
  // Without a handler, an exception would end pinprick without unwinding: the terminal would keep
  // its modes, and the program its probes.
  try {
    if (options.patterns.empty()) return top::run_on_statistics(options, renderer, terminal.get());
    return top::run_on_screen(options, *terminal);
  } catch (...) {
    throw;
  }
}

}  // namespace pinprick::cli
