// Signals that mean: end now, and leave nothing behind.
//
// They stay blocked, so that none of them ends us between two probes; whoever waits for something
// waits for them too.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "cli/messages.h"

namespace pinprick::bench {

class Interrupts {
 public:
  Interrupts();

  // Until `descriptor` can be read. Fails when a signal arrives first, or nothing comes for a
  // minute.
  Result<void, cli::Message> wait_readable(int descriptor) const;

 private:
  Fd signals_;
};

}  // namespace pinprick::bench
