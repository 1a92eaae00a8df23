// Splits the condition of an action at the return of a function into two: a part that is decided
// when the call begins, and a part that is decided when it has returned.
//
// Arguments are known at the entry alone. So what a condition says of nothing but arguments is
// decided there, and the call is not even timed if it does not hold. What it says of the return is
// decided there, and the arguments that this needs as well are kept with the call.
//
// But one measurement of a call serves all that time it. If they do not say the same of the
// arguments, everything is decided at the return. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "action/action.h"
#include "arch/stub.h"
#include "select/expression.h"

namespace pinprick::action {

// The condition is that both hold. Each may be empty: then it always holds.
struct WhenComputed {
  select::Expression at_entry;
  select::Expression at_return;
};
enum class Entry : bool { decides, does_not_decide };
WhenComputed when_computed(const Action& action, Entry entry = Entry::decides);

// How many arguments a call can keep.
inline constexpr size_t kMostKept = arch::KeptRegisters{}.numbers.size();

// Adds the arguments that the action needs at the return and that are not among these yet, by
// their numbers.
void add_kept_arguments(const Action& action, Entry entry, std::vector<uint8_t>& arguments);

}  // namespace pinprick::action
