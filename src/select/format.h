// Parses the words that a user gives an event's line: `"opened {path:string} as {$retval}"`.
//
// Between quotes, {EXPRESSION} stands for a value, {{ and }} for braces, and \", \\, \n and \t are
// escapes. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pinprick::select {

struct Format {
  struct Part {
    std::string before;      // the words before the value
    std::string_view value;  // of the text that was parsed
  };
  std::vector<Part> parts;
  std::string end;  // the words after the last value
};

struct FormatError {
  enum class Cause : uint8_t {
    no_end,    // the closing quote is missing
    no_brace,  // the closing brace of a value is missing
    no_value,  // there is nothing between the braces
    stray,     // a closing brace has no opening one
    unknown,   // no escape is written like that
  } cause = Cause::no_end;
  size_t at = 0;  // where it is, in the text that was parsed

  friend bool operator==(const FormatError&, const FormatError&) = default;
};

// Returns the length of the text in quotes with which this starts, its quotes included; the length
// of all if the closing one is missing.
size_t end_of_quotes(std::string_view text);

// The text starts with a quote, and ends with the closing one.
Result<Format, FormatError> parse_format(std::string_view text);

}  // namespace pinprick::select
