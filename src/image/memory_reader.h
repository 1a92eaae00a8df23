// How code that looks at a process reads its memory, without knowing how it is reached.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/address.h"

namespace pinprick::image {

// Reads memory of the process. Returns false if any of it cannot be read.
using MemoryReader = std::function<bool(Address, std::span<uint8_t>)>;

}  // namespace pinprick::image
