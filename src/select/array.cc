#include "select/array.h"

#include <algorithm>
#include <charconv>

namespace pinprick::select {
namespace {

struct ElementType {
  std::string_view name;
  Array::Of of;
  uint8_t bytes;
};
constexpr ElementType kElementTypes[] = {
    {"u8", Array::Of::number, 1},         {"u16", Array::Of::number, 2},
    {"u32", Array::Of::number, 4},        {"u64", Array::Of::number, 8},
    {"s8", Array::Of::signed_number, 1},  {"s16", Array::Of::signed_number, 2},
    {"s32", Array::Of::signed_number, 4}, {"s64", Array::Of::signed_number, 8},
    {"x8", Array::Of::hexadecimal, 1},    {"x16", Array::Of::hexadecimal, 2},
    {"x32", Array::Of::hexadecimal, 4},   {"x64", Array::Of::hexadecimal, 8},
    {"char", Array::Of::character, 1},    {"sym", Array::Of::symbol, 8},
    {"strings", Array::Of::text, 8},
};

}  // namespace

std::optional<Array> split_array(std::string_view value) {
  if (!value.ends_with(']')) return std::nullopt;
  const size_t open = value.rfind('['), colon = value.rfind(':');
  if (open == value.npos || colon == value.npos || colon > open) return std::nullopt;
  const std::string_view type = value.substr(colon + 1, open - colon - 1);
  const auto* const known = std::ranges::find(kElementTypes, type, &ElementType::name);
  if (known == std::end(kElementTypes)) return std::nullopt;
  const std::string_view digits = value.substr(open + 1, value.size() - open - 2);
  Array array = {.of = known->of, .bytes = known->bytes, .address = value.substr(0, colon)};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), array.count);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  if (!is_number || array.count == 0 || array.count > kMostElements) return std::nullopt;
  return array;
}

std::string element_of(const Array& array, uint16_t number) {
  const char sign = array.of == Array::Of::signed_number ? 's' : 'u';
  const std::string distance = number == 0 ? "" : "+" + std::to_string(array.bytes * number);
  const std::string load = "*(" + (sign + std::to_string(8 * array.bytes)) + "*)(" +
                           std::string(array.address) + distance + ")";
  return array.of == Array::Of::text ? "(" + load + "):string" : load;
}

}  // namespace pinprick::select
