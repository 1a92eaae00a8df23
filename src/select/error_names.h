// The names of error numbers: ENOENT is 2. Those of Linux on x86-64, whichever C library the
// program has. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pinprick::select {

// Returns `ENOENT` for 2, and `-ENOENT` for -2, as some functions and all system calls return it.
// The upper half of a number that is an int may be missing. Returns nullopt if it has no name.
std::optional<std::string> name_of_error(uint64_t number);

// Returns nullopt if no error has that name.
std::optional<uint64_t> error_named(std::string_view name);

}  // namespace pinprick::select
