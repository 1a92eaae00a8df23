#include "cli/top/locale.h"

#include <cctype>
#include <cstdlib>
#include <string>

namespace pinprick::cli::top {

bool names_utf8(std::string_view locale) {
  const size_t dot = locale.find('.');
  if (dot == locale.npos) return false;
  std::string codeset;
  for (const char c : locale.substr(dot + 1, locale.find('@') - dot - 1))
    if (c != '-') codeset += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return codeset == "utf8";
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0')
      return names_utf8(value);
  return false;
}

}  // namespace pinprick::cli::top
