// The signals that make pinprick print its results, detach, and exit.
#pragma once

#include "base/fd.h"
#include "session/launch.h"

namespace pinprick::cli {

// The exit status of a program that a signal has ended is this plus the signal, as in shells.
inline constexpr int kSignalBase = 128;

// Blocks these signals for good, before the first probe is placed, so that none of them can kill us
// while probes are in place.
class Interrupts {
 public:
  Interrupts();
  // Becomes readable when a signal arrives.
  int descriptor() const { return descriptor_.get(); }
  // How signals were treated before, for programs that we start.
  const session::SignalTreatment& before() const { return before_; }
  bool arrived();
  // The last signal that arrived; 0 if none has.
  int signal() const { return signal_; }

  // From now on, SIGUSR1 asks for what has come so far, and ends nothing.
  void accept_requests();
  // Becomes readable when it arrives; -1 if requests are not accepted.
  int request_descriptor() const { return request_descriptor_.get(); }
  bool requested();

 private:
  session::SignalTreatment before_;
  Fd descriptor_;
  Fd request_descriptor_;
  int signal_ = 0;
};

}  // namespace pinprick::cli
