#include "export/html/json_text.h"

#include <fmt/format.h>

#include <iterator>

#include "export/format.h"

namespace pinprick::exports {

std::string json_text(std::string_view text) {
  std::string json = "\"";
  for (const char c : as_utf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    // HTML's tags, comments and references start with < and &.
    if (byte < ' ' || c == '<' || c == '>' || c == '&' || c == '\x7f')
      fmt::format_to(std::back_inserter(json), "\\u{:04x}", static_cast<unsigned>(byte));
    else if (c == '"' || c == '\\')
      json += {'\\', c};
    else
      json += c;
  }
  return json + '"';
}

}  // namespace pinprick::exports
