// The parts of what a user writes of one point: `libc:write%return $arg3 if $retval>0`.
//
// The condition is what follows the first word `if`. The value is made of the last words before it
// that start like one and have an argument or a register in them, or that are an expression with a
// name, since a C++ signature may have blanks, too: `f(int, char) const`. What C++ has as words is
// no name. Several are one text. Pure; returns parts of the text.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace pinprick::select {

struct Spec {
  std::string_view point;  // without `%return`
  bool at_return = false;
  std::string_view value;                     // empty: there is none
  std::optional<std::string_view> condition;  // empty: nothing follows the `if`
};

inline constexpr std::string_view kReturnMark = "%return";

Spec split_spec(std::string_view text);

// Returns the length of the first word; blanks in parentheses are part of it.
size_t end_of_value(std::string_view text);

}  // namespace pinprick::select
