#include "cli/render/text_width.h"

#include <algorithm>
#include <array>

namespace pinprick::cli {
namespace {

struct CharacterRange {
  char32_t first;
  char32_t last;
};

template <size_t N>
bool is_in(const std::array<CharacterRange, N>& ranges, char32_t c) {
  for (const CharacterRange& range : ranges)
    if (c >= range.first && c <= range.last) return true;
  return false;
}

bool is_control(char32_t c) {
  // C0, DEL and C1; line and paragraph separators; marks that change the direction of text.
  static constexpr std::array<CharacterRange, 6> kControls = {{{0, 0x1f},
                                                               {0x7f, 0x9f},
                                                               {0x200e, 0x200f},
                                                               {0x2028, 0x202e},
                                                               {0x2066, 0x2069},
                                                               {0xe0000, 0xe007f}}};
  return is_in(kControls, c);
}

size_t columns_of(char32_t c) {
  static constexpr std::array<CharacterRange, 6> kCombining = {{{0x300, 0x36f},
                                                                {0x483, 0x489},
                                                                {0x200b, 0x200d},
                                                                {0x20d0, 0x20ff},
                                                                {0xfe00, 0xfe0f},
                                                                {0xfe20, 0xfe2f}}};
  static constexpr std::array<CharacterRange, 10> kWide = {{{0x1100, 0x115f},
                                                            {0x2e80, 0xa4cf},
                                                            {0xac00, 0xd7a3},
                                                            {0xf900, 0xfaff},
                                                            {0xfe30, 0xfe6f},
                                                            {0xff00, 0xff60},
                                                            {0xffe0, 0xffe6},
                                                            {0x1f300, 0x1f64f},
                                                            {0x1f900, 0x1f9ff},
                                                            {0x20000, 0x3fffd}}};
  if (c < 0x300) return 1;
  return is_in(kCombining, c) ? 0 : is_in(kWide, c) ? 2 : 1;
}

// Returns the length of the command that the text starts with if it sets colours or type; else 0.
size_t length_of_style(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

Decoded first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  constexpr Decoded kWrong = {U'?', 1, false};
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t length = lead >= 0xf0 && lead < 0xf5   ? 4
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                                                      : 0;
  if (length == 0) return kWrong;
  char32_t character = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {U'?', 0, false};
    if ((byte(i) & 0xc0) != 0x80) return kWrong;
    character = character << 6 | (byte(i) & 0x3fu);
  }
  static constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = character >= 0xd800 && character < 0xe000;
  if (character < kSmallest[length] || is_surrogate || character > 0x10ffff) return kWrong;
  return {character, length, true};
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string utf8_of(char32_t character) {
  const auto c = static_cast<uint32_t>(character);
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  const auto tail = [&](unsigned shift) { return byte(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xc0 | c >> 6), tail(0)};
  if (c < 0x10000) return {byte(0xe0 | c >> 12), tail(6), tail(0)};
  return {byte(0xf0 | c >> 18), tail(12), tail(6), tail(0)};
}

std::string printable(std::string_view text, bool unicode) {
  std::string clean;
  while (!text.empty()) {
    const Decoded next = first_character(text);
    const size_t length = next.length == 0 ? text.size() : next.length;
    const bool is_shown =
        next.is_valid && !is_control(next.character) && (unicode || next.character < 0x80);
    clean += is_shown ? text.substr(0, length) : "?";
    text.remove_prefix(length);
  }
  return clean;
}

std::string printable_lines(std::string_view text, bool styles) {
  std::string clean;
  while (!text.empty()) {
    const size_t kept = std::min(text.size(), text.find_first_of("\n\t\033"));
    clean += printable(text.substr(0, kept), true);
    text.remove_prefix(kept);
    if (text.empty()) break;
    const size_t style = styles ? length_of_style(text) : 0;
    const size_t length = std::max<size_t>(style, 1);
    clean += style == 0 && text[0] == '\033' ? "?" : text.substr(0, length);
    text.remove_prefix(length);
  }
  return clean;
}

size_t width_of(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const Decoded next = first_character(text);
    width += columns_of(next.character);
    text.remove_prefix(next.length == 0 ? text.size() : next.length);
  }
  return width;
}

std::string shortened(std::string_view text, size_t columns, bool unicode) {
  if (width_of(text) <= columns) return std::string(text);
  std::string_view ellipsis = unicode ? "…" : "...";
  if (width_of(ellipsis) > columns) ellipsis = std::string_view("...").substr(0, columns);
  const size_t room = columns - width_of(ellipsis);
  size_t width = 0, bytes = 0;
  while (bytes < text.size()) {
    const Decoded next = first_character(text.substr(bytes));
    width += columns_of(next.character);
    if (width > room || next.length == 0) break;
    bytes += next.length;
  }
  return std::string(text.substr(0, bytes)) + std::string(ellipsis);
}

std::string fitted(std::string_view text, size_t columns, bool unicode) {
  std::string result = shortened(text, columns, unicode);
  result.append(columns - std::min(columns, width_of(result)), ' ');
  return result;
}

}  // namespace pinprick::cli
