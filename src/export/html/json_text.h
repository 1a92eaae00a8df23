// Texts as JSON that can be part of an HTML page. Pure.
//
// Names come from other programs: none of them may end the page's script element, or start another
// one. So no text has the characters with which HTML's own words start.
#pragma once

#include <string>
#include <string_view>

namespace pinprick::exports {

// Returns the text as a JSON string with its quotes, in UTF-8. Wrong bytes become U+FFFD.
std::string json_text(std::string_view text);

}  // namespace pinprick::exports
