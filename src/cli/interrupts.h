// The signals that make pinprick print its results, detach, and exit.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

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

  // From now on, SIGUSR1 asks for what has come so far, and ends nothing. So does Enter on our
  // terminal, unless a program that we start reads it (Keys::left_alone).
  enum class Keys : bool { left_alone, read };
  void accept_requests(Keys keys);
  // Returns descriptors that become readable when a request comes; maybe none.
  std::vector<int> request_descriptors() const;
  enum class Request : uint8_t { signal, key };
  std::optional<Request> requested();

 private:
  session::SignalTreatment before_;
  Fd descriptor_;
  Fd request_descriptor_;
  bool reads_keys_ = false;
  int signal_ = 0;
};

}  // namespace pinprick::cli
