// Starts a program and holds it in its loader: the libraries are mapped, and no code of theirs or
// of the program's own has run. For one thread of ours, as it traces the program.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "base/result.h"
#include "image/elf/machine.h"

namespace pinprick::session {

struct LaunchError {
  enum class Cause : unsigned char {
    cannot_start,  // fork or pipe
    cannot_exec,   // no such program, not permitted, or not executable: `system_error`
    unreadable,    // it can be executed, but its file cannot be read: `system_error`
    not_x86_64,    // the file is for `machine`
    ended_early,   // before its loader had mapped its libraries
    interrupted,   // and killed for that
    cannot_hold,   // ptrace refused
  } cause = Cause::cannot_start;
  std::string program;
  int system_error = 0;
  image::Machine machine = {};
};

// Which signals a process blocks and ignores, which the programs that it starts inherit.
class SignalTreatment {
 public:
  // This process's.
  static SignalTreatment current();
  // Makes it this process's. Can also be called between fork and exec.
  void adopt() const;
  bool blocks(int signal) const { return sigismember(&blocked_, signal) == 1; }

 private:
  sigset_t blocked_ = {};
  std::array<bool, NSIG> ignored_ = {};
};

// A child of ours. While it is held it is not traced, but in a group stop; release() resumes it.
class Launched {
 public:
  // The program gets `treatment`. It is killed if the descriptor `interrupts` becomes readable
  // before it is held, here or by relocate(); -1 for none.
  static Result<Launched, LaunchError> start(const std::vector<std::string>& command,
                                             const SignalTreatment& treatment, int interrupts = -1);
  Launched(Launched&& other) noexcept;
  Launched& operator=(Launched&&) = delete;
  // Kills a child that was never released; otherwise leaves it alone.
  ~Launched();

  pid_t pid() const { return pid_; }
  // Has the loader yet to relocate the program and its libraries? So it is with glibc: IFUNCs are
  // not resolved yet, and relocations in code not applied.
  bool relocates_later() const { return relocates_later_; }
  // Lets the loader do so, and holds the program again before any constructor of a library runs.
  // IFUNC resolvers run meanwhile. Returns false if the program has ended, or cannot be held.
  bool relocate();
  // Was it killed by relocate(), as `interrupts` became readable?
  bool is_interrupted() const { return is_interrupted_; }
  void release();
  // Waits for its end, and returns the status as wait(2) does. Meanwhile resumes threads that a
  // stop left unsettled.
  int wait();

 private:
  Launched(pid_t pid, const SignalTreatment& treatment, int interrupts, bool relocates_later)
      : pid_(pid),
        treatment_(treatment),
        interrupts_(interrupts),
        relocates_later_(relocates_later) {}
  pid_t pid_ = 0;
  SignalTreatment treatment_;
  int interrupts_ = -1;
  bool relocates_later_ = false;
  bool is_interrupted_ = false;
  bool released_ = false;
  std::optional<int> ended_;  // its status, if it was waited for already
};

}  // namespace pinprick::session
