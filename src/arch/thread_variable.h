// Finds the thread-local variable whose address a function returns, as __errno_location() does.
// Pure, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/address.h"

namespace pinprick::arch {

struct ThreadVariable {
  // The word that has the variable's distance from the thread pointer once the loader has written
  // it; 0: the distance is `offset`.
  Address offset_at = 0;
  int64_t offset = 0;

  friend bool operator==(const ThreadVariable&, const ThreadVariable&) = default;
};

// `function` lies at `begin`. Returns nullopt if it does anything else as well.
std::optional<ThreadVariable> returned_thread_variable(std::span<const uint8_t> function,
                                                       Address begin);

}  // namespace pinprick::arch
