// Is notified of what happens to a process under measurement, as it happens, on the thread that
// uses the measurement. References are valid during the call. A listener must not call the
// measurement.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/task.h"
#include "engine/session.h"
#include "session/budget_keeper.h"
#include "session/events.h"
#include "session/measurement_error.h"
#include "session/report.h"
#include "session/unseen_code.h"

namespace pinprick::session {

// Events are those that hits have recorded, as they are read.
class MeasurementListener : public EventSink {
 public:
  // Planning and arming start. The task can be watched as long as the returned object lives, and
  // can be cancelled until the first jump is written.
  virtual std::shared_ptr<void> watch(Task& task) = 0;

  // The process has probes of a recorder that was killed, whose newest events were not told yet
  // (left_events.h). So they stay.
  virtual void found_left_events(const ProcessName&, pid_t) {}
  // Some code of the process that patterns may mean is not seen.
  virtual void unseen(const ProcessName& process, const UnseenCode& code) = 0;
  // Calls will be timed, but the process can unwind its stack by means that were not found.
  virtual void may_unwind_elsewhere(const ProcessName& process) = 0;
  // The process's program has its probes; there may be none.
  virtual void armed(const ProcessName& process, const engine::ArmReport& report,
                     uint64_t elapsed_ns) = 0;

  // The kernel has to read what pointers lead to, which was not so when the process was armed. The
  // listener is notified once hits have read much in this way.
  virtual void reads_slowly(const ProcessName& process, engine::SlowReads why) = 0;

  // Objects in which the patterns match were loaded, and have their probes. The process still
  // waits.
  virtual void loaded(const ProcessName& process, const std::vector<std::string>& objects,
                      const engine::ArmReport& report, uint64_t elapsed_ns) = 0;
  virtual void unloaded(const ProcessName& process, const std::vector<std::string>& objects) = 0;
  // An object was loaded that has relocations in its code, which the loader has not applied yet. So
  // the object is not probed.
  virtual void code_unfinished(const ProcessName& process, const std::string& object) = 0;
  // Loaded objects could not be probed.
  virtual void load_missed(const ProcessName& process, const MeasurementError& why) = 0;
  // The process has waited for us too long, and went on. The code that it loaded may have run
  // already.
  virtual void load_timed_out(const ProcessName& process) = 0;

  // With Exec::followed: the process runs another program, whose name it has now. Next comes
  // armed() or exec_missed().
  void executed(const ProcessName& process) override = 0;
  virtual void exec_missed(const ProcessName& process, const MeasurementError& why) = 0;

  // With MeasurementSpec::once: probes that were hit could not be taken out. That is tried again.
  virtual void removal_failed(const ProcessName& process, const ledger::SessionError& why) = 0;
  // With MeasurementSpec::budget: probes were taken out, or are in again.
  virtual void budget_changed(const ProcessName& process, const BudgetEvent& event) = 0;

  virtual void disarm_failed(const ProcessName& process, const ledger::SessionError& why) = 0;
};

}  // namespace pinprick::session
