// Texts that are structures: the address and the length, in the strings of several languages.
#pragma once

#include <cstdint>
#include <optional>

#include "debug/debug_info.h"

namespace pinprick::debug {

struct TextLayout {
  uint64_t address = 0, length = 0;  // where they are in the structure
  Type length_type = {};
};

// Returns nullopt if it is no structure that is known to hold a text.
std::optional<TextLayout> text_layout(DebugInfo& info, const Type& structure);

}  // namespace pinprick::debug
