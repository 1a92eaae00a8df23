// The types of numbers that an expression can name: u32, uint32_t, unsigned int, f64. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace pinprick::select {

struct NumberType {
  uint8_t bytes = 0;
  bool is_signed = false;
  bool is_real = false;  // a floating-point number
};

// Returns the type of one word, such as u32 or uint32_t; nullopt if there is none.
std::optional<NumberType> number_type(std::string_view word);

// Returns the type of C that these words are, in any order; nullopt if they are none.
std::optional<NumberType> c_type(std::span<const std::string_view> words);

}  // namespace pinprick::select
