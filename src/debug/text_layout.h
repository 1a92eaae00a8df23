// Texts that are structures: the address and the length, in the strings of several languages.
#pragma once

#include <cstdint>
#include <optional>

#include "debug/debug_info.h"

namespace pinprick::debug {

struct TextLayout {
  uint64_t address = 0, length = 0;  // where they are in the structure
  Type length_type = {};
  // A short text of libc++ lies in the structure itself.
  struct Short {
    uint64_t byte =
        0;  // where the byte is whose lowest bit is 0 for one; the others are its length
    uint64_t begin = 0;  // where the text is
  };
  std::optional<Short> of_short = {};
};

// Returns nullopt if it is no structure that is known to hold a text.
std::optional<TextLayout> text_layout(DebugInfo& info, const Type& structure);

}  // namespace pinprick::debug
