// Writes the fields of records (format.h). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "recording/format.h"

namespace pinprick::recording {

class Encoder {
 public:
  void byte(uint8_t value) { bytes_ += static_cast<char>(value); }
  void number(uint64_t value) {
    constexpr uint8_t kMore = 0x80;
    for (; value >= kMore; value >>= 7) byte(static_cast<uint8_t>(value) | kMore);
    byte(static_cast<uint8_t>(value));
  }
  // As the least number of bytes for small ones of either sign: 0, -1, 1, -2 and so on.
  void difference(uint64_t to, uint64_t from) {
    const auto change = static_cast<int64_t>(to - from);
    number(static_cast<uint64_t>(change) << 1 ^ static_cast<uint64_t>(change >> 63));
  }
  void text(std::string_view value) {
    if (value.empty()) return number(kEmptyText);
    if (value.size() > kLongestNumberedText) return unnumbered(kUnnumberedText, value);
    if (const auto known = texts_.find(value); known != texts_.end())
      return number(kKnownTexts + known->second);
    if (texts_.size() >= kMostNumberedTexts || bytes_of_texts_ >= kMostBytesOfTexts)
      return unnumbered(kUnnumberedText, value);
    texts_.emplace(std::string(value), texts_.size());
    bytes_of_texts_ += value.size();
    unnumbered(kNewText, value);
  }

  size_t size() const { return bytes_.size(); }
  std::string take() { return std::exchange(bytes_, {}); }

 private:
  void unnumbered(uint64_t how, std::string_view value) {
    number(how);
    number(value.size());
    bytes_ += value;
  }

  // Found by a text that is not copied for that.
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::string bytes_;
  size_t bytes_of_texts_ = 0;  // those with a number
  std::unordered_map<std::string, uint64_t, Hash, std::equal_to<>> texts_;
};

}  // namespace pinprick::recording
