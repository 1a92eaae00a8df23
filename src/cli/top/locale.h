// What the user's terminal can show. Read from the locale's name alone: the system may lack the
// locale's files, or have them in another libc's format.
#pragma once

#include <string_view>

namespace pinprick::cli::top {

// Returns whether text is UTF-8, by LC_ALL, LC_CTYPE or LANG.
bool locale_is_utf8();

// Returns whether a locale such as de_DE.UTF-8@euro has UTF-8 as its codeset.
bool names_utf8(std::string_view locale);

}  // namespace pinprick::cli::top
