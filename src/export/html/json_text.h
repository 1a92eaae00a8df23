// Texts as JSON that can be part of an HTML page. Pure.
//
// Names come from other programs: none of them may end the page's script element, or start another
// one. So the JSON has none of the characters that HTML's tags, comments and references start with.
#pragma once

#include <string>
#include <string_view>

namespace pinprick::exports {

// Returns the text as a JSON string with its quotes, in UTF-8. Wrong bytes become U+FFFD. Controls
// but newlines and tabs, and marks that change the direction of text, become characters that can be
// seen: no name can look like another one, or like other parts of the page, by them.
std::string json_text(std::string_view text);

}  // namespace pinprick::exports
