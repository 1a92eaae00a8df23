// Comma-separated values with quotes as in RFC 4180, in UTF-8, with a newline after each line.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pinprick::exports {

// An empty cell, a number, or a text.
using CsvCell = std::variant<std::monostate, uint64_t, int64_t, double, std::string>;

// A text that a spreadsheet would take for a formula starts with an apostrophe in the file: names
// and values come from other programs.
std::string csv_line(const std::vector<CsvCell>& cells);

}  // namespace pinprick::exports
