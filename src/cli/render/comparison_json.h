// Two measurements side by side, as records (docs/json.md).
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "compare/change.h"

namespace pinprick::cli {

// One record for each row, and then one of the files. Each lacks the version alone.
std::vector<nlohmann::ordered_json> comparison_records(const compare::Comparison& comparison);

}  // namespace pinprick::cli
