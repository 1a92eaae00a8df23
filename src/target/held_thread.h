// A thread of a process that we hold for longer than one Stop: it was seized while the kernel
// executed a program for it, or while it loaded a library, and must run no instruction until that
// is armed. Meanwhile each Stop of its process (stop.h) takes it as stopped, and leaves it so.
//
// For one thread of ours, which traces it. If we die, the kernel lets it go: it is in a plain
// ptrace stop, with its own registers, except while a hijack uses it (hijacked_thread.h). If we are
// stopped, a timer continues us (hold_guard.h).
#pragma once

#include <sys/types.h>

#include <set>
#include <utility>

#include "target/hold_guard.h"

namespace pinprick::target {

class HeldThread {
 public:
  // `tid` is traced by this thread of ours, and is in a stop.
  HeldThread(pid_t pid, pid_t tid);
  HeldThread(HeldThread&& other) noexcept
      : guard_(std::move(other.guard_)),
        pid_(std::exchange(other.pid_, 0)),
        tid_(std::exchange(other.tid_, 0)) {}
  HeldThread& operator=(HeldThread&&) = delete;
  // Lets it go.
  ~HeldThread();

  pid_t pid() const { return pid_; }
  pid_t tid() const { return tid_; }

  // These return whether the calling thread holds that thread, or any thread of that process.
  static bool is_held(pid_t pid, pid_t tid);
  static bool holds_any_of(pid_t pid);
  // Calls f with each thread of that process that the calling thread holds. May be called in a
  // signal handler while the calling thread changes nothing of this.
  template <class F>
  static void for_each_of(pid_t pid, const F& f) {
    for (auto one = held_.lower_bound({pid, 0}); one != held_.end() && one->first == pid; ++one)
      f(one->second);
  }
  // Makes the thread no longer count as held: other code lets it go.
  static void forget(pid_t pid, pid_t tid);

 private:
  static thread_local std::set<std::pair<pid_t, pid_t>> held_;
  HoldGuard guard_;
  pid_t pid_ = 0;
  pid_t tid_ = 0;
};

}  // namespace pinprick::target
