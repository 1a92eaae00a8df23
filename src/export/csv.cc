#include "export/csv.h"

#include <fmt/format.h>

#include "export/format.h"

namespace pinprick::exports {
namespace {

std::string cell_text(std::string_view text) {
  constexpr std::string_view kFormulas = "=+-@\t\r";
  std::string cell = as_utf8(text);
  if (!cell.empty() && kFormulas.find(cell.front()) != kFormulas.npos) cell.insert(0, 1, '\'');
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
