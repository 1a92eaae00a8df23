// The call with which a function reports itself and its caller to a profiler: of mcount (-pg) or
// __fentry__ (-mfentry). Pure, but for the lazy loading of the object; thread-safe if the object's
// functions, imports and text are loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/address.h"
#include "image/object.h"

namespace pinprick::placement {

struct ProfilerCall {
  Address end = 0;
  bool is_at_entry = false;  // it calls __fentry__, which finds the caller on top of the stack
};

// Returns the first call of the function, if no branch comes before it and it calls a profiler.
// `code` is the function's, and lies at `begin`, in the object's own addresses.
std::optional<ProfilerCall> find_profiler_call(image::Object& object, std::span<const uint8_t> code,
                                               Address begin);

// Returns up to `most` bytes of code from an address on. Empty if it is not in the object's text.
std::span<const uint8_t> code_at_most(image::Object& object, Address address, uint64_t most);

}  // namespace pinprick::placement
