// Divisions whose divisor is no number: where it is 0, a hit does nothing. Pure.
#pragma once

#include "action/action.h"

namespace pinprick::action {

// Makes the action's condition hold only where no divisor in it, nor in what it computes at the
// same moment, is 0. The key of a timed call whose condition is one of its entry is left out:
// divided by 0, it is 0.
void require_divisors(Action& action);

}  // namespace pinprick::action
