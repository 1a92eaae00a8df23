// Compares two designs of a return probe, reduced to the difference. In one, the measured function
// is called from a slot's own code, and the return address identifies the slot; that is what
// pinprick does. In the other, it is called from the probe's stub, and a callee-saved register
// holds the slot meanwhile.
#pragma once

#include "results.h"

namespace pinprick::bench {

// Calls one function repeatedly, and 64 functions in an order that looks random, on one thread.
void compare_slot_designs(Results& results);

}  // namespace pinprick::bench
