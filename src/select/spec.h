// The parts of what a user writes of one point: `libc:write%return $arg3 if $retval>0`.
//
// The condition is what follows the first word `if`. The value is made of the last words before it
// that start like one and have an argument or a register in them, or that are an expression with a
// name, since a C++ signature may have blanks, too: `f(int, char) const`. What C++ has as words is
// no name. A value may be given another name: `n=$arg3`. Several are one text. A text in quotes
// after a blank is one of them (format.h). An event may have a name, which comes first: `opened =
// libc:open64`. Pure; returns parts of the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace pinprick::select {

struct Spec {
  std::string_view event = {};  // the name before the point, NAME or GROUP:NAME; empty: none
  std::string_view point;       // without `%return`
  bool at_return = false;
  std::string_view value;                     // empty: there is none
  std::optional<std::string_view> condition;  // empty: nothing follows the `if`
};

inline constexpr std::string_view kReturnMark = "%return";

Spec split_spec(std::string_view text);

// Returns the text of `spec` without the name of its event, which may have blanks before it.
std::string_view without_event(std::string_view spec);

// Splits `n=$arg3` into the name that a value is given, and the value. The name is empty if it has
// none.
struct GivenName {
  std::string_view name;
  std::string_view value;
};
GivenName split_name(std::string_view word);

// How a value is to be shown, which may be written where its type is: `flags:x32`, `$arg3:sym`,
// `$retval:errno`.
enum class ShownAs : uint8_t { as_it_is, hexadecimal, symbol, error, raw, character };
struct GivenForm {
  ShownAs form = ShownAs::as_it_is;
  std::string_view value;
  std::string_view bits;  // of `:x32`: 32; else empty
};
GivenForm split_form(std::string_view value);

// Returns the parts of a key, between commas that are in no parentheses, braces or texts.
std::vector<std::string_view> split_key(std::string_view text);
// Is this part of a key an error number, which has a name?
bool is_error_key(std::string_view part);
// Is it the name of the thread's command?
bool is_command_key(std::string_view part);

// Returns the length of the first word; blanks in parentheses are part of it.
size_t end_of_value(std::string_view text);

}  // namespace pinprick::select
