// Which of the differences between two measurements are more than noise (docs/diff.md).
//
// Pure.
#pragma once

#include <vector>

#include "compare/change.h"

namespace pinprick::compare {

// Sets `p` and `is_change` of each finding of the rows, which are one family of tests, and returns
// how far the rows have moved together.
//
// The spread of intervals and of calls does not tell how far one run is from another: where code
// and data lie, and what else the machine does, stays the same throughout a run, and moves each
// function by another amount. How far it does is estimated from the rows themselves, of which most
// are taken to be the same before and after (Efron, J. Am. Stat. Assoc. 99, 2004). With Noise::runs
// the spread has that in it.
struct Least {
  double calls = 0, typical = 0, mean = 0, tail = 0;  // the smallest changes that count
};
std::vector<Shift> judge(std::vector<Change>& rows, Noise noise, const Least& least);

}  // namespace pinprick::compare
