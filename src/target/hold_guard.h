// HoldGuard: keeps a controller from standing still while threads of other processes stand still
// for it.
//
// A thread that we have stopped goes on when we let it go, or when we die. If we are stopped
// ourselves meanwhile (SIGSTOP, Ctrl-Z), neither happens, and the thread would stand still for as
// long as we do. So a timer of the kernel's sends us SIGCONT after a while. We then finish what we
// were at, let the threads go, and run on: there is no way to see that we were to be stopped. A
// SIGCONT does nothing to a process that runs.
//
// A debugger's stop is not ended by this. An ExecGate ends us earlier, since it holds threads at
// any time (exec_gate.h).
//
// Thread-safe. One timer serves all guards of the process, and runs while there is any.
#pragma once

#include <utility>

namespace pinprick::target {

class HoldGuard {
 public:
  HoldGuard() { begin(); }
  HoldGuard(HoldGuard&& other) noexcept : holds_(std::exchange(other.holds_, false)) {}
  HoldGuard& operator=(HoldGuard&& other) noexcept {
    end();
    holds_ = std::exchange(other.holds_, false);
    return *this;
  }
  ~HoldGuard() { end(); }
  // There is nothing to guard any more.
  void end();

 private:
  static void begin();
  bool holds_ = true;
};

}  // namespace pinprick::target
