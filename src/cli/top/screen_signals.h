// The signals that a full screen has to deal with, besides those of Interrupts: a new size of the
// terminal, and being suspended and continued.
#pragma once

#include <signal.h>

#include <optional>

#include "base/fd.h"

namespace pinprick::cli::top {

// Blocks SIGWINCH, SIGTSTP and SIGCONT while it lives.
class ScreenSignals {
 public:
  ScreenSignals();
  ScreenSignals(const ScreenSignals&) = delete;
  ScreenSignals& operator=(const ScreenSignals&) = delete;
  ~ScreenSignals();

  // Becomes readable when one of the signals arrives.
  int descriptor() const { return descriptor_.get(); }
  // Returns the next signal that has arrived.
  std::optional<int> take();

  // Suspends pinprick as SIGTSTP does without a handler. Returns when it is continued.
  void suspend();

 private:
  sigset_t before_ = {};
  Fd descriptor_;
};

}  // namespace pinprick::cli::top
