// Starts a program and holds it at its entry point: libraries mapped and initialised by the loader,
// nothing of the program itself run.
#pragma once

#include <sys/types.h>

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

// A child of ours. Not traced once it is held: it stands in a group stop, and goes on with
// release().
class Launched {
 public:
  static Result<Launched, LaunchError> start(const std::vector<std::string>& command);
  Launched(Launched&& other) noexcept;
  Launched& operator=(Launched&&) = delete;
  // Kills a child that was never released; otherwise leaves it alone.
  ~Launched();

  pid_t pid() const { return pid_; }
  void release();
  // Waits for its end; the status as of wait(2).
  int wait();

 private:
  explicit Launched(pid_t pid) : pid_(pid) {}
  pid_t pid_ = 0;
  bool released_ = false;
};

}  // namespace pinprick::session
