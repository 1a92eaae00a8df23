// Follows what measured processes execute, in themselves and in their children: a thread that is
// about to execute a program waits in a hook (engine/watch/exec_watch.h), is traced from there to
// the end of the exec, and is handed out before the first instruction of the new program.
//
//     in the hook         PTRACE_SEIZE, PTRACE_INTERRUPT
//     PTRACE_EVENT_STOP   is it the one that waits there? Then answer; PTRACE_SYSCALL
//     entry of execve     will the program gain rights that it would not gain while it is traced?
//                         Then let go: it is not measured
//     exit of execve      it has failed: let go
//     PTRACE_EVENT_EXEC   the new program is mapped; PTRACE_INTERRUPT, continue
//     PTRACE_EVENT_STOP   on the way out of the kernel: handed out
//
// Nothing is written into a thread. If we die, the kernel lets it go, and no thread waits in a hook
// for longer than a second. In between, no thread is traced.
//
// For one thread of ours, which traces; another one only says that we are there.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/watch/exec_watch.h"
#include "target/held_thread.h"
#include "target/hold_guard.h"

namespace pinprick::session {

class ExecFollower {
 public:
  struct Figures {
    uint64_t executed = 0;                       // programs that were caught at their start
    uint64_t missed = 0;                         // execs that did not wait for us
    std::map<std::string, uint64_t> left_alone;  // execs, by the cause
  };

  // `own`: a child of ours, whose end other code waits for; 0 if there is none.
  explicit ExecFollower(pid_t own = 0) : own_(own) {}
  ~ExecFollower() { close(); }
  ExecFollower(const ExecFollower&) = delete;
  ExecFollower& operator=(const ExecFollower&) = delete;

  void set_own(pid_t own) { own_ = own; }
  // Only what these processes execute is followed; the others are let go at once. All are by
  // default.
  void set_only(std::function<bool(pid_t)> only) { only_ = std::move(only); }
  // Also watches these; those that it knows already are left out.
  void watch(const std::vector<std::shared_ptr<engine::ExecWatch>>& watches);
  // Takes requests, and returns the next thread that is held at the start of a program. Returns
  // nullopt if there is none for now. Call it every millisecond; and again at once if is_busy().
  std::optional<target::HeldThread> next();
  bool is_busy() const { return !followed_.empty(); }
  // Is a thread of the process traced by us, on its way to a program that next() will hand out?
  bool follows(pid_t pid) const;
  // Has no process any more hooks that lead to us? Looks at most ten times a second, and returns
  // false in between.
  bool is_unused();
  // Lets all go. From then on, no thread waits.
  void close();
  Figures figures() const;

 private:
  struct Watched {
    std::shared_ptr<engine::ExecWatch> watch;
    // Requests whose thread was not found so far.
    std::vector<std::pair<engine::ExecWatch::Request, unsigned>> tries;
  };
  struct Followed {
    target::HoldGuard guard;  // it stands still between its stops and our looks at them
    std::shared_ptr<engine::ExecWatch> watch;
    engine::ExecWatch::Request request;
    pid_t pid = 0;
    pid_t tid = 0;
    bool is_answered = false;
    bool is_in_exec = false;  // between the call's entry and its exit
    bool has_executed = false;
    int stops = 0;
  };

  void heartbeat();
  void take_requests();
  void take(Watched& watched, const engine::ExecWatch::Request& request);
  bool seize(const Watched& watched, const engine::ExecWatch::Request& request);
  void forget_unused(uint64_t pause_ns);
  // Returns true if it is followed no longer.
  bool look_at(Followed& one, std::optional<target::HeldThread>& caught);
  bool look_at_stop(Followed& one, int status, std::optional<target::HeldThread>& caught);
  bool let_go(Followed& one, const char* cause = nullptr);

  pid_t own_ = 0;
  std::function<bool(pid_t)> only_;
  std::mutex mutex_;  // for the heartbeat: of watched_
  std::vector<Watched> watched_;
  std::vector<Followed> followed_;
  Figures figures_;
  uint64_t missed_by_former_ = 0;
  uint64_t looked_ns_ = 0;  // when unused watches were looked for
  std::atomic<uint64_t> alive_ns_ = 0;
  std::atomic<bool> ends_ = false;
  std::thread heart_;
};

}  // namespace pinprick::session
