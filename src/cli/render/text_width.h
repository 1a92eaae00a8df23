// Text in columns of a terminal. Names come from the files of other programs, so what a terminal
// would take for a command, or what changes the direction of text, must not reach it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pinprick::cli {

// Returns valid UTF-8 without control characters: each one, and each wrong byte, becomes a '?'.
// Without `unicode`, so does each character that is not ASCII.
std::string printable(std::string_view text, bool unicode);

// Returns printable text of several lines: newlines and tabs are kept, and with `styles` so are the
// terminal's commands for colours and bold type.
std::string printable_lines(std::string_view text, bool styles);

// Returns how many columns printable text takes: 0 for combining characters, 2 for wide ones.
size_t width_of(std::string_view text);

// Returns as much of printable text as fits, with an ellipsis if that is not all of it.
std::string shortened(std::string_view text, size_t columns, bool unicode);

// Returns exactly `columns` columns: shortened, or filled with spaces on the right.
std::string fitted(std::string_view text, size_t columns, bool unicode);

// Returns the lines of a text, without the newlines that end them.
std::vector<std::string_view> split_lines(std::string_view text);

// Returns a character as UTF-8.
std::string utf8_of(char32_t character);

struct Decoded {
  char32_t character = 0;
  size_t length = 0;  // in bytes; 0: the text ends within a character
  bool is_valid = false;
};
// Reads the first character of a text that is not empty. A wrong byte has the length 1.
Decoded first_character(std::string_view text);

}  // namespace pinprick::cli
