// ByteReader: a cursor over untrusted bytes. Every read is checked, and a failure is remembered.
//
// For ELF notes, unwind tables and other data that may be truncated or hostile. Reads past the end
// return 0 and clear ok(); callers check ok() once, before they rely on a value.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace pinprick {

class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes, size_t position = 0)
      : bytes_(bytes), position_(position), ok_(position <= bytes.size()) {}

  bool ok() const { return ok_; }
  size_t position() const { return position_; }
  size_t remaining() const { return ok_ ? bytes_.size() - position_ : 0; }

  template <class T>
  T read() {
    T value{};
    if (remaining() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += sizeof value;
    return value;
  }

  uint8_t u8() { return read<uint8_t>(); }
  uint16_t u16() { return read<uint16_t>(); }
  uint32_t u32() { return read<uint32_t>(); }
  uint64_t u64() { return read<uint64_t>(); }

  uint64_t uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      uint8_t byte = u8();
      if (!ok_) return 0;
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
  }

  int64_t sleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      uint8_t byte = u8();
      if (!ok_) return 0;
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte & 0x80) continue;
      if ((byte & 0x40) && shift + 7 < 64) value |= ~uint64_t{0} << (shift + 7);
      return static_cast<int64_t>(value);
    }
  }

  std::string_view c_string() {
    const size_t start = position_;
    while (u8() != 0) {
    }
    if (!ok_) return {};
    return {reinterpret_cast<const char*>(bytes_.data()) + start, position_ - start - 1};
  }

  void skip(uint64_t n) {
    if (remaining() < n)
      ok_ = false;
    else
      position_ += n;
  }

  // Returns the next n bytes; empty if there are fewer.
  std::span<const uint8_t> take(uint64_t n) {
    const size_t start = position_;
    skip(n);
    return ok_ ? bytes_.subspan(start, n) : std::span<const uint8_t>();
  }

  // Returns a reader for the next n bytes; this reader moves past them.
  ByteReader sub(uint64_t n) {
    if (remaining() < n) {
      ok_ = false;
      return ByteReader({});
    }
    ByteReader inner(bytes_.subspan(position_, n));
    position_ += n;
    return inner;
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t position_;
  bool ok_;
};

}  // namespace pinprick
