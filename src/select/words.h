// Letters, digits and words of the probe language, which do not depend on the locale. Pure.
#pragma once

namespace pinprick::select {

constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}
// Can the character be in a word?
constexpr bool is_word(char c) {
  return is_letter(c) || is_decimal(c);
}

}  // namespace pinprick::select
