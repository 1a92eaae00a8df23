// pinprick count and pinprick latency: attach, arm, print, detach.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/clock.h"
#include "cli/attach.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "probe/instructions.h"
#include "session/registry.h"

namespace pinprick::cli {
namespace {

using probe::Kind;

// Signals that mean: print the result, detach, end. Blocked from before the first probe is in
// place, so that none of them can end us halfway.
class Interrupts {
 public:
  Interrupts() {
    sigset_t set;
    sigemptyset(&set);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    // Whoever reads our output may go away, or a limit be reached; then we have probes to remove.
    // By a handler: a program that we start would inherit it that a signal is ignored.
    for (int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, [](int) {});
    descriptor_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  int descriptor() const { return descriptor_.get(); }
  bool arrived() {
    signalfd_siginfo info;
    return ::read(descriptor_.get(), &info, sizeof info) == sizeof info;
  }

 private:
  Fd descriptor_;
};

// One process under observation.
struct Watched {
  ProcessName name;
  std::unique_ptr<image::ProcessImage> image;
  std::optional<session::Session> session;
  std::optional<session::DisarmReport> disarmed;
  uint64_t armed_ns = 0;
  uint64_t ended_ns = 0;  // 0: still there
  std::vector<uint64_t> last_counters;
  std::vector<uint64_t> last_unwound;
  std::vector<stats::Histogram> last_histograms;
  uint64_t last_ns = 0;

  double seconds(uint64_t since) const {
    const uint64_t until = ended_ns != 0 ? ended_ns : monotonic_ns();
    return static_cast<double>(until - since) / 1e9;
  }
};

class Watch {
 public:
  Watch(const Options& options, Kind kind, Renderer& renderer)
      : options_(options), kind_(kind), renderer_(renderer) {}

  int run();

 private:
  Result<void, Message> begin();
  Result<void, Message> arm(pid_t pid, const Patterns& patterns);
  Result<probe::ProbeSet, Message> plan(image::ProcessImage& image, const Patterns& patterns);
  void warn_of_unwinding(const Watched& watched, const session::ArmReport& report);
  void wait();
  void notice_ends();
  bool all_ended() const;
  void report_all(bool is_final);
  void report_counts(Watched& watched, bool is_final);
  void report_latencies(Watched& watched, bool is_final);
  int end();
  void disarm_all();
  int command_status();
  int fail_with(const Message& message);

  const Options& options_;
  Kind kind_;
  Renderer& renderer_;
  Interrupts interrupts_;
  std::vector<Watched> watched_;
  std::optional<session::Launched> launched_;
  bool incomplete_ = false;  // something could not be probed
  bool lost_ = false;        // something was not measured
  bool disarm_failed_ = false;
};

void Watch::warn_of_unwinding(const Watched& watched, const session::ArmReport& report) {
  if (kind_ != Kind::latency || !may_unwind(*watched.image)) return;
  if (report.unwinders != 0 && !watched.image->maps_other_unwinder) return;
  renderer_.warning(fmt::format(
      "{} can unwind its stack, but not with libgcc's unwinder: an exception that passes "
      "through a timed function ends the program, a thread that is cancelled inside of "
      "one ends without its cleanup; `count` is safe",
      watched.name.command));
}

Result<probe::ProbeSet, Message> Watch::plan(image::ProcessImage& image, const Patterns& patterns) {
  const Progress progress("reading symbols, decoding", !options_.json);
  auto matches = match(image, patterns, options_.allow_missing);
  if (!matches) return fail(matches.error());
  if (options_.instructions) *matches = probe::every_instruction(*matches);
  return probe::plan_probes(image, *std::move(matches), kind_);
}

Result<void, Message> Watch::arm(pid_t pid, const Patterns& patterns) {
  const uint64_t begin_ns = monotonic_ns();
  if (auto other = session::occupant(pid)) return fail(message(session::SessionError(*other)));
  auto subject = look_at(pid);
  if (!subject) return fail(subject.error());
  for (const std::string& warning : subject->warnings) renderer_.warning(warning);

  Watched watched;
  watched.name = {pid, subject->target.command()};
  watched.image = std::move(subject->image);
  auto set = plan(*watched.image, patterns);
  // A process that ends meanwhile has no code to read, which looks like any of several things.
  if (!subject->target.same_image())
    return fail(message(target::AttachError{target::AttachCause::exited, pid, 0, 0, {}}));
  if (!set) return fail(set.error());
  auto armed = session::Session::arm(std::move(subject->target), *watched.image, *std::move(set),
                                     {options_.bits, options_.slots});
  if (!armed) return fail(message(armed.error()));
  watched.armed_ns = watched.last_ns = monotonic_ns();
  const auto& report = armed->report();
  warn_of_unwinding(watched, report);
  renderer_.armed(watched.name, report, watched.armed_ns - begin_ns,
                  options_.duration_s == 0 && !launched_);
  renderer_.flush();
  if (!report.skipped.empty()) incomplete_ = true;
  if (report.armed == 0)
    return fail(Message{"nothing_armed", "none of the functions can be probed", kNothingMatched});
  watched.session.emplace(*std::move(armed));
  watched.last_counters = watched.session->counters();
  watched.last_unwound = watched.session->unwound();
  watched_.push_back(std::move(watched));
  return {};
}

Result<void, Message> Watch::begin() {
  auto patterns = parse_patterns(options_);
  if (!patterns) return fail(patterns.error());
  std::vector<pid_t> pids = options_.pids;
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  if (options_.has_command()) {
    auto launched = session::Launched::start(options_.command);
    if (!launched) return fail(message(launched.error()));
    launched_.emplace(*std::move(launched));
    pids = {launched_->pid()};
  }
  for (pid_t pid : pids)
    if (auto armed = arm(pid, *patterns); !armed) return armed;
  if (launched_) launched_->release();
  return {};
}

void Watch::notice_ends() {
  for (Watched& watched : watched_) {
    if (watched.ended_ns != 0) continue;
    const auto& target = watched.session->target();
    if (!target.has_exited() && target.same_image()) continue;
    watched.ended_ns = monotonic_ns();
  }
}

bool Watch::all_ended() const {
  return std::all_of(watched_.begin(), watched_.end(),
                     [](const Watched& watched) { return watched.ended_ns != 0; });
}

// Until there is a reason to end: a signal, the time, the end of all processes, nobody reading.
void Watch::wait() {
  const uint64_t start = monotonic_ns();
  const auto after = [&](double seconds) {
    return start + static_cast<uint64_t>(std::llround(seconds * 1e9));
  };
  const uint64_t deadline = options_.duration_s > 0 ? after(options_.duration_s) : UINT64_MAX;
  uint64_t intervals = 1;
  // An exec changes the program without ending the process: look now and then.
  constexpr uint64_t kLookAgainNs = 500'000'000;
  for (;;) {
    const uint64_t next_report = options_.interval_s > 0
                                     ? after(options_.interval_s * static_cast<double>(intervals))
                                     : UINT64_MAX;
    const uint64_t now = monotonic_ns();
    if (now >= deadline) return;
    if (now >= next_report) {
      ++intervals;
      report_all(false);
      if (renderer_.is_broken()) return;
      continue;
    }
    std::vector<pollfd> descriptors = {{interrupts_.descriptor(), POLLIN, 0}};
    for (const Watched& watched : watched_)
      if (watched.ended_ns == 0)
        descriptors.push_back({watched.session->target().exit_descriptor(), POLLIN, 0});
    const uint64_t until = std::min({deadline, next_report, now + kLookAgainNs});
    const timespec timeout = {static_cast<time_t>((until - now) / 1'000'000'000),
                              static_cast<long>((until - now) % 1'000'000'000)};
    ::ppoll(descriptors.data(), descriptors.size(), &timeout, nullptr);
    if (interrupts_.arrived()) return;
    notice_ends();
    if (all_ended()) return;
  }
}

void Watch::report_counts(Watched& watched, bool is_final) {
  Report<CountRow> report;
  report.process = watched.name;
  report.is_final = is_final;
  report.seconds = watched.seconds(is_final ? watched.armed_ns : watched.last_ns);
  const auto counters = watched.session->counters();
  for (const auto& probe : watched.session->probes()) {
    const uint64_t before = is_final ? 0 : watched.last_counters[probe.index];
    report.rows.push_back(
        {probe.probe.match.object->name(), probe.probe.match.name, counters[probe.index] - before});
  }
  watched.last_counters = counters;
  renderer_.counts(report);
}

void Watch::report_latencies(Watched& watched, bool is_final) {
  Report<LatencyRow> report;
  report.process = watched.name;
  report.is_final = is_final;
  report.seconds = watched.seconds(is_final ? watched.armed_ns : watched.last_ns);
  const auto missed = watched.session->counters();
  const auto unwound = watched.session->unwound();
  std::vector<stats::Histogram> histograms;
  const auto& probes = watched.session->probes();
  const bool first = watched.last_histograms.empty();
  for (size_t i = 0; i < probes.size(); ++i) {
    histograms.push_back(watched.session->histogram(probes[i]));
    const bool whole = is_final || first;
    const uint64_t missed_before = is_final ? 0 : watched.last_counters[probes[i].index];
    const uint64_t unwound_before = is_final ? 0 : watched.last_unwound[probes[i].index];
    report.rows.push_back({probes[i].probe.match.object->name(), probes[i].probe.match.name,
                           whole ? histograms[i] : histograms[i].since(watched.last_histograms[i]),
                           missed[probes[i].index] - missed_before,
                           unwound[probes[i].index] - unwound_before});
    if (missed[probes[i].index] != 0) lost_ = true;
  }
  watched.last_histograms = std::move(histograms);
  watched.last_counters = missed;
  watched.last_unwound = unwound;
  renderer_.latencies(report);
}

void Watch::report_all(bool is_final) {
  for (Watched& watched : watched_) {
    if (kind_ == Kind::count)
      report_counts(watched, is_final);
    else
      report_latencies(watched, is_final);
    watched.last_ns = monotonic_ns();
  }
}

void Watch::disarm_all() {
  for (Watched& watched : watched_) {
    auto report = watched.session->disarm();
    if (report) {
      watched.disarmed = *report;
      if (report->foreign != 0) disarm_failed_ = true;
    } else {
      renderer_.error(message(report.error()));
      disarm_failed_ = true;
    }
  }
}

int Watch::command_status() {
  const int status = launched_->wait();
  constexpr int kSignalBase = 128;  // as shells do
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
}

int Watch::fail_with(const Message& message) {
  renderer_.error(message);
  disarm_all();
  renderer_.flush();
  return options_.has_command() && message.exit != kUsage ? kFailedWithCommand : message.exit;
}

// What was counted is read after the last probe is out, so that nothing is missing.
int Watch::end() {
  notice_ends();
  const uint64_t now = monotonic_ns();
  for (Watched& watched : watched_)
    if (watched.ended_ns == 0) watched.ended_ns = now;
  disarm_all();
  report_all(true);
  for (const Watched& watched : watched_)
    if (watched.disarmed) renderer_.detached(watched.name, *watched.disarmed);
  renderer_.flush();
  if (launched_) {
    const int status = command_status();
    return disarm_failed_ ? kFailedWithCommand : status;
  }
  if (disarm_failed_ || renderer_.is_broken()) return kFailed;
  if (lost_ && options_.fail_on_loss) return kLost;
  if (incomplete_ && !options_.allow_missing) return kFailed;
  return kOk;
}

int Watch::run() {
  if (auto begun = begin(); !begun) return fail_with(begun.error());
  wait();
  return end();
}

}  // namespace

int run_count(const Options& options, Renderer& renderer) {
  return Watch(options, Kind::count, renderer).run();
}

int run_latency(const Options& options, Renderer& renderer) {
  return Watch(options, Kind::latency, renderer).run();
}

}  // namespace pinprick::cli
