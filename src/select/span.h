// What lies between two points: X..Y, as a user names it.
//
//     readQueryFromClient..writeToClient
//     libc:read..libc:write
//
// Three dots are those of a C++ signature: print(char const*, ...). Pure.
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

// Does it have two dots?
bool is_span(std::string_view spec);

// Of a spec that is one.
Result<SpanPoints, SpanError> parse_span(std::string_view spec);

}  // namespace pinprick::select
