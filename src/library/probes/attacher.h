// Attaches probes to sites, and detaches them: it gives an attachment what its hits need, such as a
// counter, a histogram or the state to which its calls refer.
//
// It neither publishes lists of handlers nor writes text. The caller holds the registry's lock.
// Attaching fails, and does nothing, if a return probe asks for too much data or too many tracked
// calls, or if counters, histograms or memory run out.
#pragma once

#include <vector>

#include "base/result.h"
#include "library/probes/attachment.h"
#include "library/probes/site.h"
#include "library/probes/stub_space.h"
#include "library/statistics/histogram_store.h"
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

  // If it is enabled, it counts from now on.
  Result<void, Error> attach(Attachment& attachment, Site& site);

  // What its site has counted until now, of what the attachment counts.
  struct Counts {
    uint64_t hits = 0;
    Timings timings;
  };
  Counts counts_of(const Attachment& attachment) const;
  // It counts from these counts on, which are its site's. Does nothing if it counts already.
  static void start(Attachment& attachment, const Counts& from);
  // It does not count what comes after these.
  static void stop(Attachment& attachment, const Counts& from);
  // Detaches it, if it is attached. Hits may still be using it.
  static void detach(Attachment& attachment);
  // Takes its state back, once it is detached and no hit can be using it any more.
  void give_back(Attachment& attachment);

 private:
  Result<void, Error> prepare(detail::ReturnState& probe, const Site& site);

  StubSpace& stubs_;
  HistogramStore& histograms_;
  ReturnStates return_states_;
};

}  // namespace pinprick::library
