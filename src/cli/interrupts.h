// Signals that mean: print the result, detach, end.
#pragma once

#include "base/fd.h"
#include "session/launch.h"

namespace pinprick::cli {

// Blocks these signals, before the first probe is in place: none of them can end us halfway.
class Interrupts {
 public:
  Interrupts();
  // Readable when one has arrived.
  int descriptor() const { return descriptor_.get(); }
  // How signals were treated before, for programs that we start.
  const session::SignalTreatment& before() const { return before_; }
  bool arrived();
  // The last one that arrived; 0: none.
  int signal() const { return signal_; }

 private:
  session::SignalTreatment before_;
  Fd descriptor_;
  int signal_ = 0;
};

}  // namespace pinprick::cli
