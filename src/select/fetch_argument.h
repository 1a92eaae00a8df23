// Translates a fetch argument of the kernel's tracing, such as `path=+0(%di):string`, into a value
// of our own language. A part of event_lines.h. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "select/event_lines.h"

namespace pinprick::select {

// The place of a fetch argument, on which its meaning may depend.
struct FetchPlace {
  std::string_view line;  // in which the argument is
  bool at_return = false;
  // The distance from offsets in the file to the object's own addresses. As in the kernel, it is
  // that of the probed code. Nullopt if the event is at a symbol.
  std::optional<uint64_t> from_file = {};
};

struct FetchedArgument {
  std::string name;
  std::string value;
  bool needs_entry = false;  // it has an argument of the function
};

// `word` is a part of the line, and the argument `number` of its event, from 1.
Result<FetchedArgument, EventLineError> fetched_argument(std::string_view word, size_t number,
                                                         const FetchPlace& place);

// Returns the number, as the kernel reads it: decimal, 0x1f or 017; nullopt if it is none.
std::optional<uint64_t> kernel_number(std::string_view text);

// Returns whether it is a name as in C.
bool is_kernel_name(std::string_view text);

}  // namespace pinprick::select
