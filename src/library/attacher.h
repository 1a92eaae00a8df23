// Attaches probes to sites, and detaches them: it gives an attachment what its hits need, such as a
// counter, a histogram or the state that its calls refer to.
//
// Neither publishes lists of handlers nor touches text. The registry's lock is held. A site may
// have too many return probes, a call may ask for too much data, and counters, histograms and
// memory may run out: then nothing is attached.
#pragma once

#include <vector>

#include "base/result.h"
#include "library/attachment.h"
#include "library/site.h"
#include "library/stub_space.h"
#include "library/timing.h"
#include "pinprick/error.h"
#include "runtime/handlers.h"

namespace pinprick::library {

// States of return probes are for good: calls in flight refer to them.
class ReturnStates {
 public:
  runtime::ReturnProbeState* take();
  void give(runtime::ReturnProbeState* state);

 private:
  std::vector<runtime::ReturnProbeState*> free_;
};

class Attacher {
 public:
  // Both outlive it.
  Attacher(StubSpace& stubs, Timing& timing) : stubs_(stubs), timing_(timing) {}

  Result<void, Error> attach(Attachment& attachment, Site& site);
  // Of one that is attached nowhere, does nothing. Hits may still be using it.
  static void detach(Attachment& attachment);
  // Takes back from a detached one what no hit knows of any more.
  void give_back(Attachment& attachment);

 private:
  StubSpace& stubs_;
  Timing& timing_;
  ReturnStates return_states_;
};

}  // namespace pinprick::library
