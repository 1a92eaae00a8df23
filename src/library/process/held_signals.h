// While a HeldSignals exists, the thread that made it takes no signal but SIGTRAP. If SIGTRAP were
// held, too, a breakpoint of a probe would end the program.
//
// To be destroyed by the same thread. Cannot fail.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace pinprick::library {

class HeldSignals {
 public:
  HeldSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigdelset(&all, SIGTRAP);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  HeldSignals(HeldSignals&& other) noexcept
      : before_(other.before_), holds_(std::exchange(other.holds_, false)) {}
  HeldSignals& operator=(HeldSignals&&) = delete;
  ~HeldSignals() {
    if (holds_) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_;
  bool holds_ = true;
};

}  // namespace pinprick::library
