// How the figures of two measurements, and what changed, are put into words. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "compare/change.h"

namespace pinprick::cli {

// `+3.1%`, `-60%`, or `x2.4` from twice as much on; `from 0` and `to 0`; empty if both are 0.
std::string change_of(double before, double after);

// `3.1%` and `60%`, without a sign.
std::string percent_text(double change);

// Returns the row's name as users write it: `f%return $arg3 if $arg1==1 [fd: 3]`.
std::string label_of(const compare::RowName& name);

// Returns what changed in a row, the most important first: `30% slower (+28% to +32%), p99 2.10x as
// high`. Empty if all is within noise.
std::string change_text(const compare::Change& change);

// Of a row that one side lacks: `new`, `gone`, or on which side it could not be probed.
std::string presence_text(const compare::Change& change);

}  // namespace pinprick::cli
