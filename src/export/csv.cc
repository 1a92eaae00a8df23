#include "export/csv.h"

#include <fmt/format.h>

#include "export/format.h"

namespace pinprick::exports {
namespace {

// Is it a negative integer, as keys may be?
bool is_negative_number(std::string_view text) {
  return text.size() > 1 && text.front() == '-' &&
         text.find_first_not_of("0123456789", 1) == text.npos;
}

// Would a spreadsheet compute it?
bool is_like_formula(std::string_view text) {
  constexpr std::string_view kStarts = "=+-@\t\r";
  return !text.empty() && kStarts.find(text.front()) != kStarts.npos && !is_negative_number(text);
}

std::string cell_text(std::string_view text) {
  std::string cell = as_utf8(text);
  if (is_like_formula(cell)) cell.insert(0, 1, '\'');
  if (cell.find_first_of(",\"\r\n") == cell.npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

}  // namespace

std::string csv_line(const std::vector<CsvCell>& cells) {
  std::string line;
  for (const CsvCell& cell : cells) {
    if (&cell != &cells.front()) line += ',';
    if (const auto* text = std::get_if<std::string>(&cell))
      line += cell_text(*text);
    else if (const auto* whole = std::get_if<uint64_t>(&cell))
      line += fmt::format("{}", *whole);
    else if (const auto* with_sign = std::get_if<int64_t>(&cell))
      line += fmt::format("{}", *with_sign);
    else if (const auto* number = std::get_if<double>(&cell))
      line += fmt::format("{}", *number);
  }
  return line + '\n';
}

}  // namespace pinprick::exports
