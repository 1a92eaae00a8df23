// Messages of `list --types`. Pure.
#pragma once

#include <string_view>

#include "cli/messages/messages.h"

namespace pinprick::cli {

// `has_information`: objects that were looked at have debug information.
Message no_structure(std::string_view name, bool has_information);

}  // namespace pinprick::cli
