// Options that do not go with each other, which CLI11 cannot check.
#pragma once

#include <optional>
#include <string>

#include "cli/options.h"

namespace pinprick::cli {

// Returns one sentence for the user about the first contradiction, and nullopt if there is none.
std::optional<std::string> contradiction(const Options& options);
// The same of the options of `ftrace`, before they become those of another verb.
std::optional<std::string> contradiction_of_ftrace(const Options& options);

}  // namespace pinprick::cli
