// Splits the condition of an action at the return of a function into two: a part that is decided
// when the call begins, and a part that is decided when it has returned.
//
// Arguments are known at the entry alone, and what they lead to is read there, unless it is to be
// read at the return. So what a condition says of nothing but arguments is decided there, and the
// call is not even timed if it does not hold. What it says of the return is decided there, and what
// this needs of the entry is kept with the call.
//
// But one measurement of a call serves all that time it. If they do not say the same of the
// arguments, everything is decided at the return. Pure.
#pragma once

#include <cstdint>
#include <optional>
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

// How many values a call can keep.
using arch::kMostKept;

// Adds the values of the entry that the action needs at the return, and that are not among these
// yet: arguments, as a whole, and expressions that follow pointers.
void add_kept(const Action& action, Entry entry, std::vector<select::Expression>& values);

// Returns what a return finds in place of this part of an expression: the index among these values.
// Returns nullopt if the part is computed at the return.
std::optional<uint8_t> kept_at(const std::vector<select::Expression>& values,
                               const select::Expression& all, const select::Node& node);

}  // namespace pinprick::action
