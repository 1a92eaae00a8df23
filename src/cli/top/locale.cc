#include "cli/top/locale.h"

#include <langinfo.h>
#include <locale.h>

#include <string_view>

namespace pinprick::cli::top {

// The program's own locale stays as it is: it decides how numbers are written.
bool locale_is_utf8() {
  const locale_t locale = ::newlocale(LC_CTYPE_MASK, "", locale_t{});
  if (locale == locale_t{}) return false;
  const bool is_utf8 = std::string_view(::nl_langinfo_l(CODESET, locale)) == "UTF-8";
  ::freelocale(locale);
  return is_utf8;
}

}  // namespace pinprick::cli::top
