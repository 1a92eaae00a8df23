#include "session/array_field.h"

namespace pinprick::session {
namespace {

action::ValueLayout::Kind kind_of(select::Array::Of of) {
  using Of = select::Array::Of;
  using Kind = action::ValueLayout::Kind;
  switch (of) {
    case Of::number:
      return Kind::number;
    case Of::signed_number:
      return Kind::signed_number;
    case Of::hexadecimal:
      return Kind::hexadecimal;
    case Of::character:
      return Kind::character;
    case Of::symbol:
      return Kind::symbol;
    case Of::text:
      return Kind::text;
  }
  return Kind::number;
}

}  // namespace

action::ValueLayout layout_of(const select::Array& array) {
  action::ValueLayout all = {.kind = action::ValueLayout::Kind::array, .count = array.count};
  for (uint16_t i = 0; i < array.count; ++i)
    all.inner.push_back({.kind = kind_of(array.of),
                         .part = static_cast<uint8_t>(i),
                         .bits = static_cast<uint8_t>(8 * array.bytes),
                         .may_be_unread = true});
  return all;
}

}  // namespace pinprick::session
