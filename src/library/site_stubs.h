// The stubs of a site: what they do, making them, and leading threads to them.
//
// A form of a site has a stub for each shape that was ever needed of it. Stubs are assembled here
// and written by StubSpace::write(); only then may anything lead to them. The registry's lock is
// held. No memory may be within reach of the object.
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

// The actions of a stub of that shape; `enter` is where calls that are timed enter a slot. Pure.
// They refer to the site.
std::vector<arch::StubAction> stub_actions(const Site& site, const Shape& shape,
                                           const arch::Displaced& displaced, Address enter);

// Makes the stub that is wanted of the form, if there is none of that shape yet, and a trampoline
// if its jump needs one.
Result<void, Error> make_stub(Site& site, Form& form, StubSpace& space, const Timing& timing);

// From now on a thread that comes to the site goes on in the form's stub, which is written already.
void lead_to(Site& site, Form& form);

}  // namespace pinprick::library
