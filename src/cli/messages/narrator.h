// Tells the user, through a renderer, what happens to the processes that are measured.
#pragma once

#include <functional>
#include <vector>

#include "cli/options.h"
#include "cli/render/renderer.h"
#include "session/measurement_listener.h"

namespace pinprick::cli {

class Narrator : public session::MeasurementListener {
 public:
  // Planning and arming are cancelled when the descriptor `interrupts` becomes readable. The
  // others, to which events are passed on as well, must outlive the narrator.
  Narrator(const Options& options, Renderer& renderer, session::EventSink& events, int interrupts)
      : options_(options), renderer_(renderer), events_(events), interrupts_(interrupts) {}

  std::shared_ptr<void> watch(Task& task) override;
  void found_left_events(const ProcessName& process, pid_t recorder) override;
  void unseen(const ProcessName& process, const session::UnseenCode& code) override;
  void may_unwind_elsewhere(const ProcessName& process) override;
  void reads_slowly(const ProcessName& process, engine::SlowReads why) override;
  void armed(const ProcessName& process, const engine::ArmReport& report,
             uint64_t elapsed_ns) override;
  void loaded(const ProcessName& process, const std::vector<std::string>& objects,
              const engine::ArmReport& report, uint64_t elapsed_ns) override;
  void unloaded(const ProcessName& process, const std::vector<std::string>& objects) override;
  void code_unfinished(const ProcessName& process, const std::string& object) override;
  void load_missed(const ProcessName& process, const session::MeasurementError& why) override;
  void load_timed_out(const ProcessName& process) override;
  void executed(const ProcessName& process) override;
  void exec_missed(const ProcessName& process, const session::MeasurementError& why) override;
  void removal_failed(const ProcessName& process, const ledger::SessionError& why) override;
  void budget_changed(const ProcessName& process, const session::BudgetEvent& event) override;
  void disarm_failed(const ProcessName& process, const ledger::SessionError& why) override;
  void event(const session::Event& event) override { events_.event(event); }
  bool has_room() const override { return events_.has_room(); }
  void triggered() override { events_.triggered(); }

  // As long as it lives, nothing is printed; what there is to say is printed then.
  class Silence {
   public:
    explicit Silence(Narrator& narrator) : narrator_(narrator) { narrator_.is_silent_ = true; }
    Silence(const Silence&) = delete;
    Silence& operator=(const Silence&) = delete;
    ~Silence() { narrator_.speak(); }

   private:
    Narrator& narrator_;
  };

 private:
  void say(std::function<void()> what);
  void speak();
  void warn_of_reads(const ProcessName& process, const engine::ArmReport& report);
  void warn_of_traps(const engine::ArmReport& report);

  const Options& options_;
  Renderer& renderer_;
  session::EventSink& events_;
  int interrupts_;
  bool is_silent_ = false;
  std::vector<std::function<void()>> unsaid_;
};

}  // namespace pinprick::cli
