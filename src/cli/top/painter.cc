#include "cli/top/painter.h"

#include <fmt/format.h>

namespace pinprick::cli::top {
namespace {

const char* parameters_of(Style style, bool colored) {
  switch (style) {
    case Style::plain:
      return "";
    case Style::bold:
      return "1";
    case Style::faint:
      return "2";
    case Style::bar:
      return colored ? "36" : "";
    case Style::heading:
      return "7";
    case Style::sorted:
      return colored ? "7;1;36" : "7;1";
    case Style::selected:
      return "7";
    case Style::warning:
      return colored ? "1;33" : "1";
  }
  return "";
}

}  // namespace

std::string Painter::text_of(const Line& line) const {
  std::string text;
  for (const Piece& piece : line) {
    const std::string_view parameters = parameters_of(piece.style, colored_);
    if (parameters.empty())
      text += piece.text;
    else
      text += fmt::format("\033[{}m{}\033[m", parameters, piece.text);
  }
  return text;
}

std::string Painter::paint(const std::vector<Line>& lines) {
  std::string bytes;
  if (!is_known_ || lines.size() != shown_.size()) {
    bytes = "\033[m\033[2J";
    shown_.assign(lines.size(), {});
  }
  constexpr const char* kClearRest = "\033[K";
  for (size_t i = 0; i < lines.size(); ++i)
    if (lines[i] != shown_[i])
      bytes += fmt::format("\033[{};1H{}{}", i + 1, kClearRest, text_of(lines[i]));
  shown_ = lines;
  is_known_ = true;
  return bytes;
}

}  // namespace pinprick::cli::top
