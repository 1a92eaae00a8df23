// The stubs of a site: what they do, how they are made, and how threads are led to them.
//
// A form of a site has a stub for each shape that was ever needed of it. Stubs are assembled here,
// and written by StubSpace::write(); only after that may anything lead to them. The caller holds
// the registry's lock. Making a stub fails if no memory is within reach of the object.
#pragma once

#include <vector>

#include "arch/stub.h"
#include "base/address.h"
#include "base/result.h"
#include "library/site.h"
#include "library/stub_shape.h"
#include "library/stub_space.h"
#include "library/timing.h"
#include "pinprick/error.h"

namespace pinprick::library {

// The actions of a stub of that shape, which refer to the site; `enter` is where timed calls enter
// a slot. Pure.
std::vector<arch::StubAction> stub_actions(const Site& site, const Shape& shape,
                                           const arch::Displaced& displaced, Address enter);

// Makes the form's wanted stub, if there is none of that shape yet, and a trampoline if its jump
// needs one.
Result<void, Error> make_stub(Site& site, Form& form, StubSpace& space, const Timing& timing);

// Makes threads that reach the site go on in the form's stub, which must be written already.
void lead_to(Site& site, Form& form);

}  // namespace pinprick::library
