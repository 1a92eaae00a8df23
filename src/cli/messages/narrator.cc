#include "cli/messages/narrator.h"

#include <utility>

#include "cli/messages/messages.h"
#include "cli/messages/warnings.h"
#include "cli/output.h"

namespace pinprick::cli {

std::shared_ptr<void> Narrator::watch(Task& task) {
  return std::make_shared<Progress>(task, !options_.json, interrupts_);
}

void Narrator::say(std::function<void()> what) {
  if (is_silent_)
    unsaid_.push_back(std::move(what));
  else
    what();
}

void Narrator::speak() {
  is_silent_ = false;
  for (const auto& what : std::exchange(unsaid_, {})) what();
}

void Narrator::found_left_events(const ProcessName& process, pid_t recorder) {
  say([this, process, recorder] { renderer_.warning(warning::events_left(process, recorder)); });
}

void Narrator::unseen(const ProcessName&, const session::UnseenCode& code) {
  say([this, text = warning::unseen(code)] { renderer_.warning(text); });
}

void Narrator::may_unwind_elsewhere(const ProcessName& process) {
  say([this, process] { renderer_.warning(warning::may_unwind_elsewhere(process.command)); });
}

void Narrator::reads_slowly(const ProcessName& process, engine::SlowReads why) {
  say([this, text = warning::slow_reads(process, why)] { renderer_.warning(text); });
}

void Narrator::warn_of_traps(const engine::ArmReport& report) {
  if (report.trap_refused) renderer_.warning(warning::no_breakpoints(*report.trap_refused));
}

void Narrator::warn_of_reads(const ProcessName& process, const engine::ArmReport& report) {
  if (report.obstacle_to_reads != engine::ReadObstacle::none)
    renderer_.warning(warning::no_reads(process, report.obstacle_to_reads));
  if (report.slow_reads != engine::SlowReads::none)
    renderer_.warning(warning::slow_reads(process, report.slow_reads));
}

void Narrator::armed(const ProcessName& process, const engine::ArmReport& report,
                     uint64_t elapsed_ns) {
  say([this, process, report, elapsed_ns] {
    warn_of_traps(report);
    warn_of_reads(process, report);
    const bool until_interrupt = options_.duration_s == 0 && !options_.has_command();
    renderer_.armed(process, report, elapsed_ns, until_interrupt);
    renderer_.flush();
  });
}

void Narrator::loaded(const ProcessName& process, const std::vector<std::string>& objects,
                      const engine::ArmReport& report, uint64_t elapsed_ns) {
  say([this, process, objects, report, elapsed_ns] {
    warn_of_traps(report);
    warn_of_reads(process, report);
    renderer_.loaded(process, objects, report, elapsed_ns);
  });
}

void Narrator::unloaded(const ProcessName& process, const std::vector<std::string>& objects) {
  say([this, process, objects] { renderer_.unloaded(process, objects); });
}

void Narrator::code_unfinished(const ProcessName& process, const std::string& object) {
  say([this, process, object] {
    renderer_.warning(warning::code_unfinished(process.command, object));
  });
}

void Narrator::load_missed(const ProcessName&, const session::MeasurementError& why) {
  say([this, text = message(why)] { renderer_.warning(warning::load_missed(text)); });
}

void Narrator::load_timed_out(const ProcessName& process) {
  say([this, process] { renderer_.warning(warning::load_timed_out(process.command)); });
}

void Narrator::executed(const ProcessName& process) {
  events_.executed(process);
  say([this, process] { renderer_.executed(process); });
}

void Narrator::exec_missed(const ProcessName&, const session::MeasurementError& why) {
  say([this, text = message(why).text] { renderer_.warning(text); });
}

void Narrator::removal_failed(const ProcessName& process, const ledger::SessionError& why) {
  say([this, text = warning::removal_failed(process.pid, message(why))] {
    renderer_.warning(text);
  });
}

void Narrator::budget_changed(const ProcessName& process, const session::BudgetEvent& event) {
  say([this, process, event] {
    renderer_.budget_changed(process, event);
    renderer_.flush();
  });
}

void Narrator::disarm_failed(const ProcessName& process, const ledger::SessionError& why) {
  say([this, text = warning::probes_stay(process.pid, message(why))] { renderer_.error(text); });
}

}  // namespace pinprick::cli
