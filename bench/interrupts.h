// The signals that make the benchmark end and leave nothing.
//
// They stay blocked, so that none of them kills us between two probes; every wait also waits for
// them.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "cli/messages/messages.h"

namespace pinprick::bench {

class Interrupts {
 public:
  Interrupts();

  // Waits until `descriptor` is readable. Fails if a signal arrives first, or after a minute.
  Result<void, cli::Message> wait_readable(int descriptor) const;

 private:
  Fd signals_;
};

}  // namespace pinprick::bench
