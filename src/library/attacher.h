// Attaches probes to sites, and detaches them: it gives an attachment what its hits need, such as a
// counter, a histogram or the state to which its calls refer.
//
// It neither publishes lists of handlers nor writes text. The caller holds the registry's lock.
// Attaching fails, and does nothing, if the site has too many return probes, if a return probe asks
// for too much data, or if counters, histograms or memory run out.
#pragma once

#include <vector>

#include "base/result.h"
#include "library/attachment.h"
#include "library/histogram_store.h"
#include "library/site.h"
#include "library/stub_space.h"
#include "pinprick/error.h"
#include "runtime/handlers.h"

namespace pinprick::library {

// States of return probes are reused but never freed: calls in flight refer to them.
class ReturnStates {
 public:
  runtime::ReturnProbeState* take();
  void give(runtime::ReturnProbeState* state);

 private:
  std::vector<runtime::ReturnProbeState*> free_;
};

class Attacher {
 public:
  // Both must outlive it.
  Attacher(StubSpace& stubs, HistogramStore& histograms) : stubs_(stubs), histograms_(histograms) {}

  Result<void, Error> attach(Attachment& attachment, Site& site);
  // Detaches it, if it is attached. Hits may still be using it.
  static void detach(Attachment& attachment);
  // Takes its state back, once it is detached and no hit can be using it any more.
  void give_back(Attachment& attachment);

 private:
  StubSpace& stubs_;
  HistogramStore& histograms_;
  ReturnStates return_states_;
};

}  // namespace pinprick::library
