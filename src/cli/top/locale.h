// What the user's locale can show.
#pragma once

namespace pinprick::cli::top {

// Returns whether text is UTF-8, by LC_ALL, LC_CTYPE or LANG.
bool locale_is_utf8();

}  // namespace pinprick::cli::top
