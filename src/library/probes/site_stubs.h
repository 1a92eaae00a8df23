// The stubs of a site: what they do, how they are made, and how threads are led to them.
//
// An encoding of a site has a stub for each set of features that was ever needed of it. Stubs are
// assembled here, and written by StubSpace::write(); only after that may anything lead to them. The
// caller holds the registry's lock. Making a stub fails if no memory is within reach of the object.
#pragma once

#include <vector>

#include "arch/stub.h"
#include "base/address.h"
#include "base/result.h"
#include "library/probes/site.h"
#include "library/probes/stub_features.h"
#include "library/probes/stub_space.h"
#include "library/statistics/histogram_store.h"
#include "pinprick/error.h"

namespace pinprick::library {

// The actions of a stub with these features, which refer to the site; `enter` is where timed calls
// enter a slot. Pure.
std::vector<arch::StubAction> stub_actions(const Site& site, const StubFeatures& features,
                                           const arch::Displaced& displaced, Address enter);

// Makes the encoding's wanted stub, if there is none with these features yet, and a trampoline if
// its jump needs one.
Result<void, Error> make_stub(Site& site, Encoding& encoding, StubSpace& space,
                              const HistogramStore& histograms);

// Makes threads that reach the site go on in the encoding's stub, which must be written already:
// one that does exactly what is needed, or else more. Returns false if there is none, as no stub
// was prepared since a change failed.
bool lead_to(Site& site, Encoding& encoding);

}  // namespace pinprick::library
