#include "export/html/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "export/format.h"

namespace pinprick::exports {
namespace {

constexpr std::string_view kMarkOfUnseen = "\xef\xbf\xbd";

// In UTF-8: C1 controls, marks and isolates of direction, separators of lines, and tags.
struct UnseenRange {
  std::string_view first, last;
};
constexpr UnseenRange kUnseen[] = {
    {"\xc2\x80", "\xc2\x9f"},         {"\xd8\x9c", "\xd8\x9c"},
    {"\xe2\x80\x8e", "\xe2\x80\x8f"}, {"\xe2\x80\xa8", "\xe2\x80\xae"},
    {"\xe2\x81\xa6", "\xe2\x81\xa9"}, {"\xf3\xa0\x80\x80", "\xf3\xa0\x81\xbf"}};

// Returns the number of bytes of a character at the start of the text that cannot be seen; else 0.
size_t length_of_unseen(std::string_view text) {
  for (const auto& [first, last] : kUnseen) {
    const std::string_view character = text.substr(0, first.size());
    if (character.size() == first.size() && character >= first && character <= last)
      return character.size();
  }
  return 0;
}

// Returns the picture that Unicode has for an ASCII control: U+2400 and the following.
std::string picture_of(unsigned char control) {
  const unsigned number = control == '\x7f' ? 0x21 : control;
  return {'\xe2', '\x90', static_cast<char>(0x80 + number)};
}

}  // namespace

std::string json_text(std::string_view text) {
  const std::string utf8 = as_utf8(text);
  std::string json = "\"";
  json.reserve(utf8.size() + 2);
  for (std::string_view rest = utf8; !rest.empty();) {
    const char c = rest.front();
    const auto byte = static_cast<unsigned char>(c);
    const bool is_newline_or_tab = c == '\n' || c == '\t';
    const size_t unseen = byte < 0x80 ? 0 : length_of_unseen(rest);
    if (unseen != 0)
      json += kMarkOfUnseen;
    else if (is_newline_or_tab || c == '<' || c == '>' || c == '&')
      fmt::format_to(std::back_inserter(json), "\\u{:04x}", static_cast<unsigned>(byte));
    else if (byte < ' ' || c == '\x7f')
      json += picture_of(byte);
    else if (c == '"' || c == '\\')
      json += {'\\', c};
    else
      json += c;
    rest.remove_prefix(std::max<size_t>(unseen, 1));
  }
  return json + '"';
}

}  // namespace pinprick::exports
