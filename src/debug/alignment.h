// Where the System V ABI for x86-64 lets a type lie.
#pragma once

#include <cstdint>
#include <optional>

#include "debug/debug_info.h"

namespace pinprick::debug {

// Returns the bytes of which its address is a multiple; nullopt if that is not known.
std::optional<uint64_t> alignment_of(DebugInfo& info, const Type& type);

}  // namespace pinprick::debug
