// Divisions whose divisor is no number: where it is 0, a hit does nothing. Pure.
#pragma once

#include "action/action.h"

namespace pinprick::action {

// Makes the action's condition hold only where no divisor in it, nor in what it computes at the
// same moment, is 0. If the condition of a timed call is decided at its entry, the key is left out,
// as it is computed at the return: divided by 0, it is 0.
void require_divisors(Action& action);

}  // namespace pinprick::action
