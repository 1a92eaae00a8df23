#include "cli/verbs/session_statistics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/machine.h"
#include "cli/messages/messages.h"
#include "cli/messages/verb_messages.h"
#include "cli/object_store.h"
#include "engine/watch/providing.h"
#include "session/caller_watch.h"
#include "stats/kstats_text.h"
#include "target/procfs.h"
#include "target/remote_target.h"

namespace pinprick::cli {
namespace {

using control::Command;
using control::ControlError;
using control::Verb;
using session::MeasurementError;
using session::StatisticError;

int number_of(const ledger::SessionError& error) {
  if (std::holds_alternative<ledger::Busy>(error)) return EBUSY;
  if (std::holds_alternative<ledger::Occupied>(error)) return EBUSY;
  if (const auto* attach = std::get_if<target::AttachError>(&error)) {
    switch (attach->cause) {
      case target::AttachCause::no_such_process:
      case target::AttachCause::kernel_thread:  // or it has ended, and was not waited for yet
      case target::AttachCause::exited:
      case target::AttachCause::exec_during_attach:
        return ESRCH;
      case target::AttachCause::not_permitted:
      case target::AttachCause::not_64_bit:
      case target::AttachCause::shadow_stack:
      case target::AttachCause::seccomp:
      case target::AttachCause::seccomp_deadly:
      case target::AttachCause::user_dispatch:
      case target::AttachCause::call_refused:
      case target::AttachCause::memory_refused:
        return EPERM;
      default:
        return EBUSY;
    }
  }
  if (const auto* file = std::get_if<ledger::FileError>(&error)) {
    using Cause = ledger::FileError::Cause;
    if (file->cause == Cause::untrusted) return EPERM;
    if (file->cause == Cause::locked) return EBUSY;
    return file->system_error != 0 ? file->system_error : EIO;
  }
  return EIO;
}

struct Describe {
  ControlError operator()(const session::SelectionError& why) const {
    return {EINVAL, message(why).text};
  }
  ControlError operator()(const MeasurementError& why) const {
    const std::string text = message(why).text;
    if (const auto* session = std::get_if<ledger::SessionError>(&why))
      return {number_of(*session), text};
    if (const auto* match = std::get_if<session::MatchError>(&why)) {
      const auto* ambiguous = std::get_if<session::AmbiguousPoint>(match);
      if (ambiguous != nullptr && ambiguous->span == ambiguous->point)
        return {EINVAL, fmt::format("'{}' matches {} functions, {} and others; a statistic times "
                                    "one of them",
                                    ambiguous->point, ambiguous->matches,
                                    fmt::join(ambiguous->some, ", "))};
      return {std::holds_alternative<session::NothingMatched>(*match) ? ENOENT : EINVAL, text};
    }
    if (std::holds_alternative<session::Interrupted>(why)) return {EINTR, text};
    return {EINVAL, text};
  }
  ControlError operator()(const ledger::RecordedError& why) const {
    using Cause = ledger::RecordedError::Cause;
    switch (why.cause) {
      case Cause::untrusted:
        return {EPERM, fmt::format("{} belongs to another user", why.path)};
      case Cause::busy:
        return {EBUSY, fmt::format("another process keeps changing {}: try again", why.path)};
      case Cause::not_recorded:
        return {EIO, fmt::format("{} is damaged, or of another version of pinprick", why.path)};
      case Cause::no_statistic:
        return {ENOENT, "there is no such statistic: `list` shows the names"};
      case Cause::system:
        break;
    }
    return {why.system_error,
            fmt::format("cannot change {}: {}", why.path, std::strerror(why.system_error))};
  }
  ControlError operator()(const session::OfProgram& why) const {
    return {EPERM,
            fmt::format("the program records {0} itself, and only the program can remove it: "
                        "`STOP {0}` pauses it",
                        why.name)};
  }
  ControlError operator()(const session::BadName& why) const {
    return {EINVAL, fmt::format("'{}' cannot be the name of a statistic: a name has 1 to 63 bytes, "
                                "no '/', blank or control character, is not ., .. or _control and "
                                "does not start with GAP-",
                                why.name)};
  }
  ControlError operator()(const session::NameTaken& why) const {
    return {EEXIST, fmt::format("there already is a statistic {0}: choose another name, or "
                                "`remove {0}` first",
                                why.name)};
  }
  ControlError operator()(const session::NoStatistic& why) const {
    return {ENOENT, fmt::format("there is no statistic {}: `list` shows the names", why.name)};
  }
  ControlError operator()(const session::NotTimed& why) const {
    return {EINVAL, fmt::format("{} cannot be timed: {}; choose another function, or times "
                                "between two points with `start` and `end`",
                                why.function, plan::sentence(why.refusal))};
  }
  ControlError operator()(const session::NoEnd& why) const {
    return {EINVAL, fmt::format("'{}' is a static point, which has no return: say with `end` where "
                                "the times end",
                                why.point)};
  }
  ControlError operator()(const session::NotSwitched& why) const {
    return {EBUSY,
            fmt::format("another tool has changed code of the statistic {0}, so it cannot be "
                        "started or stopped: `remove {0}`, and trace it again",
                        why.name)};
  }
};

session::StatisticSpec traced_spec(const Command& command, bool force) {
  session::StatisticSpec spec;
  spec.force = force;
  spec.name = command.name;
  spec.bits = command.bits;
  spec.start = command.start;
  spec.end = command.end.value_or("");
  switch (command.gap) {
    case control::Gap::cpu:
      spec.gap = layout::Gap::cpu;
      break;
    case control::Gap::thread:
      spec.gap = layout::Gap::thread;
      break;
    case control::Gap::none:
      spec.gap = layout::Gap::none;
  }
  return spec;
}

class ProcessStatistics : public control::Statistics {
 public:
  ProcessStatistics(pid_t pid, uint64_t start_time)
      : pid_(pid), start_time_(start_time), statistics_(pid, object_store()) {}

  Result<void, ControlError> run(const Command& command) override {
    if (auto there = is_there(); !there) return there;
    const auto done = change_statistic(statistics_, command);
    if (!done) return fail(control_error(done.error()));
    return {};
  }
  Result<std::vector<control::StatisticInfo>, ControlError> list() override {
    if (auto there = is_there(); !there) return fail(there.error());
    std::vector<control::StatisticInfo> infos;
    for (const auto& one : statistics_.list())
      infos.push_back({one.name, one.is_running, one.is_recorded, one.created_ns,
                       one.is_running ? realtime_ns() : one.changed_ns});
    return infos;
  }
  Result<std::string, ControlError> text(std::string_view name) override {
    if (auto there = is_there(); !there) return fail(there.error());
    const auto figures = statistics_.read(std::string(name));
    if (!figures) return fail(control_error(figures.error()));
    return text_of(*figures);
  }

 private:
  Result<void, ControlError> is_there() const {
    const auto status = target::read_status(pid_);
    if (status && status->start_time == start_time_) return {};
    return fail(ControlError{ESRCH, fmt::format("process {} has ended", pid_)});
  }

  pid_t pid_;
  uint64_t start_time_;
  session::Statistics statistics_;
};

class AllProcesses : public control::Processes {
 public:
  std::vector<pid_t> all() override {
    std::set<pid_t> pids;
    for (const pid_t pid : session::processes_with_statistics()) pids.insert(pid);
    return {pids.begin(), pids.end()};
  }
  Result<std::unique_ptr<control::Statistics>, ControlError> open(pid_t pid) override {
    const auto status = target::read_status(pid);
    if (!status) return fail(no_process(pid));
    return std::unique_ptr<control::Statistics>(
        std::make_unique<ProcessStatistics>(pid, status->start_time));
  }
  void provide() override {
    constexpr uint64_t kPauseNs = 1'000'000'000;
    if (monotonic_ns() - provided_ns_ < kPauseNs) return;
    provided_ns_ = monotonic_ns();
    for (const pid_t pid : all()) {
      engine::provide_for_kept(pid);
      if (const auto target = target::RemoteTarget::open(pid))
        session::look_after_callers(*target, object_store());
    }
  }

 private:
  uint64_t provided_ns_ = 0;
};

}  // namespace

ControlError control_error(const StatisticError& error) {
  return std::visit(Describe(), error);
}

ExitCode exit_code(const StatisticError& error) {
  if (const auto* why = std::get_if<MeasurementError>(&error)) return message(*why).exit;
  if (std::holds_alternative<session::NotTimed>(error)) return kNothingMatched;
  return exit_code(control_error(error));
}

ExitCode exit_code(const ControlError& error) {
  switch (error.number) {
    case EINVAL:
      return kUsage;
    case ENOENT:
      return kNothingMatched;
    case EPERM:
    case EACCES:
    case ESRCH:
    case EBUSY:
      return kAttachRefused;
    default:
      return kFailed;
  }
}

Result<void, StatisticError> change_statistic(session::Statistics& statistics,
                                              const Command& command, bool force) {
  switch (command.verb) {
    case Verb::trace: {
      const auto traced = statistics.trace(traced_spec(command, force));
      if (!traced) return fail(traced.error());
      return {};
    }
    case Verb::remove:
      return statistics.remove(command.name);
    case Verb::start:
      return statistics.start(command.name);
    case Verb::stop:
      return statistics.stop(command.name);
    case Verb::reset:
      return statistics.reset(command.name);
    case Verb::list:
    case Verb::show:
      break;
  }
  return {};
}

std::unique_ptr<control::Processes> session_statistics() {
  return std::make_unique<AllProcesses>();
}

std::string text_of(const session::StatisticFigures& figures) {
  return stats::kstats_text(figures.by_cpu, static_cast<int>(possible_cpus()));
}

std::vector<std::string> shortfalls(const session::StatisticFigures& figures) {
  std::vector<std::string> lines;
  // `one` and `several` are how a sentence goes on after the number.
  const auto add = [&](uint64_t count, const char* one, const char* several, const char* why) {
    if (count != 0)
      lines.push_back(
          fmt::format("{}: {} {}{}", figures.name, count, count == 1 ? one : several, why));
  };
  if (figures.is_gone)
    lines.push_back(
        fmt::format("{}: its code was unloaded, so no more times come; `remove` it, and "
                    "trace it again where the library is loaded",
                    figures.name));
  const bool are_calls = figures.kind == session::StatisticFigures::Kind::calls;
  using layout::Loss;
  const layout::Losses& lost = figures.losses;
  const uint64_t refused = std::min(figures.refused, lost[Loss::missed]);
  add(refused, "value was", "values were",
      " not recorded: there is no memory left for histograms; free some in the runtime directory, "
      "and trace it again");
  if (are_calls)
    add(lost[Loss::missed] - refused, "call was", "calls were",
        " not recorded: too many calls were in flight at once");
  else
    add(lost[Loss::missed] - refused, "start was", "starts were",
        " not recorded: too many threads had one at once");
  add(lost[Loss::from_generated], "call was", "calls were",
      " not timed: made by generated code, or by code that came after the trace");
  add(lost[Loss::unwound], "call was", "calls were",
      " unwound by an exception or a cancellation, and so not timed");
  add(lost[Loss::abandoned], "call was", "calls were", " left by longjmp, and so not timed");
  add(lost[Loss::unread], "call was", "calls were",
      " not looked at: what a pointer leads to could not be read");
  add(lost[Loss::repeated], "start was", "starts were",
      " ignored: an earlier one had not ended, and that one counts");
  if (figures.kind != session::StatisticFigures::Kind::gaps)
    add(lost[Loss::unmatched], "end", "ends", " came without a start");
  else if (figures.of_thread)
    add(lost[Loss::unmatched], "start", "starts",
        " ended no gap: no call or span had ended on the thread since its last start");
  // Before the first start on a CPU there is no gap.
  else if (lost[Loss::unmatched] > possible_cpus())
    add(lost[Loss::unmatched], "start", "starts",
        " ended no gap: no call or span had ended on the CPU since the last start there");
  return lines;
}

}  // namespace pinprick::cli
