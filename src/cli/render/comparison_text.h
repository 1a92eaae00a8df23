// Two measurements side by side, for people: what changed, and by how much. docs/diff.md says how
// to read it.
#pragma once

#include <cstddef>

#include "cli/output.h"
#include "compare/change.h"

namespace pinprick::cli {

// `all`: rows that are within noise, too. `top`: the maximum number of rows of each table; 0 for
// all.
void print_comparison(Output& output, const compare::Comparison& comparison, bool all, size_t top);

}  // namespace pinprick::cli
