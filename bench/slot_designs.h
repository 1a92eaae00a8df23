// Two designs of a return probe, side by side, with nothing else in them: in one the measured
// function is called from a slot's own code, which the return names (what pinprick does); in the
// other from the probe's stub, and a callee-saved register carries the slot meanwhile.
#pragma once

#include "results.h"

namespace pinprick::bench {

// Calls of one function in a row, and of 64 in an order that looks random, by one thread.
void compare_slot_designs(Results& results);

}  // namespace pinprick::bench
