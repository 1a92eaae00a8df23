// Starts a program and holds it at its entry point: libraries mapped and initialised by the loader,
// nothing of the program itself run.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "base/result.h"

namespace pinprick::session {

struct LaunchError {
  enum class Cause : unsigned char {
    cannot_start,  // fork or pipe
    cannot_exec,   // no such program, not permitted, no executable: `system_error`
    not_64_bit,
    ended_early,  // before it reached its entry point
    cannot_hold,  // ptrace refused
  } cause = Cause::cannot_start;
  std::string program;
  int system_error = 0;
};

// How a process takes signals, as far as the programs that it starts inherit it.
class SignalTreatment {
 public:
  // Ours.
  static SignalTreatment current();
  // Makes it ours. Between fork and exec, too.
  void adopt() const;
  bool blocks(int signal) const { return sigismember(&blocked_, signal) == 1; }

 private:
  sigset_t blocked_ = {};
  std::array<bool, NSIG> ignored_ = {};
};

// A child of ours. Not traced once it is held: it stands in a group stop, and goes on with
// release().
class Launched {
 public:
  // `treatment`: of signals, by the program.
  static Result<Launched, LaunchError> start(const std::vector<std::string>& command,
                                             const SignalTreatment& treatment);
  Launched(Launched&& other) noexcept;
  Launched& operator=(Launched&&) = delete;
  // Kills a child that was never released; otherwise leaves it alone.
  ~Launched();

  pid_t pid() const { return pid_; }
  void release();
  // Waits for its end; the status as of wait(2). A thread that a stop left unsettled is let go
  // meanwhile.
  int wait();

 private:
  explicit Launched(pid_t pid) : pid_(pid) {}
  pid_t pid_ = 0;
  bool released_ = false;
};

}  // namespace pinprick::session
