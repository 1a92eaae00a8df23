// Spans from one point to another: X..Y, as users write them.
//
//     readQueryFromClient..processCommand
//     libc:read..libc:write
//
// Three dots belong to a C++ signature: print(char const*, ...). Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace pinprick::select {

struct SpanPoints {
  std::string_view start, end;
  friend bool operator==(const SpanPoints&, const SpanPoints&) = default;
};

enum class SpanError : uint8_t {
  no_start,
  no_end,
  several,  // more than one `..`
};

// Returns whether it contains two dots.
bool is_span(std::string_view spec);

// Parses a spec for which is_span() is true.
Result<SpanPoints, SpanError> parse_span(std::string_view spec);

}  // namespace pinprick::select
