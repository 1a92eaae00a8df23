// Arrays at an address, as users write them: `$arg2:u32[4]`, `(buf+8):x8[16]`, `argv:strings[3]`.
//
// The last one has pointers to texts. Pure; returns parts of the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pinprick::select {

struct Array {
  enum class Of : uint8_t {
    number,
    signed_number,
    hexadecimal,
    character,  // of one byte
    symbol,     // addresses of code
    text,
  } of = Of::number;
  uint8_t bytes = 8;  // of an element
  std::string_view address;
  uint16_t count = 0;
};

inline constexpr uint16_t kMostElements = 64;

// Returns nullopt if the value is no array of 1 to kMostElements elements.
std::optional<Array> split_array(std::string_view value);

// Returns the expression of an element, which is below `count`.
std::string element_of(const Array& array, uint16_t number);

}  // namespace pinprick::select
