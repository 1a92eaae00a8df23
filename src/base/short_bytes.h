// ShortBytes: at most 255 bytes, stored in the object itself if they are few. A vector would take
// 24 bytes, and 32 of the heap, for each of millions.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

namespace pinprick {

class ShortBytes {
 public:
  using value_type = uint8_t;
  using iterator = uint8_t*;
  using const_iterator = const uint8_t*;
  static constexpr size_t kMost = UINT8_MAX;

  ShortBytes() = default;
  ShortBytes(std::initializer_list<uint8_t> bytes) { assign(bytes.begin(), bytes.end()); }
  ShortBytes(const ShortBytes& other) { assign(other.begin(), other.end()); }
  ShortBytes(ShortBytes&& other) noexcept { swap(other); }
  ShortBytes& operator=(ShortBytes other) noexcept {
    swap(other);
    return *this;
  }
  ~ShortBytes() { release(); }

  template <class Iterator>
  void assign(Iterator first, Iterator last) {
    resize(static_cast<size_t>(std::distance(first, last)));
    std::copy(first, last, begin());
  }
  void push_back(uint8_t byte) {
    resize(size_ + size_t{1});
    data()[size_ - 1] = byte;
  }
  void clear() {
    release();
    size_ = 0;
  }

  uint8_t* data() { return is_long() ? heap() : own_; }
  const uint8_t* data() const { return is_long() ? heap() : own_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  iterator begin() { return data(); }
  iterator end() { return data() + size_; }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size_; }
  uint8_t operator[](size_t i) const { return data()[i]; }
  uint8_t back() const { return data()[size_ - 1]; }

  friend bool operator==(const ShortBytes& a, std::span<const uint8_t> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend bool operator==(const ShortBytes& a, const ShortBytes& b) {
    return a == std::span<const uint8_t>(b);
  }

 private:
  static constexpr size_t kOwn = 15;

  bool is_long() const { return size_ > kOwn; }
  // Its address is stored where the bytes would be.
  uint8_t* heap() const {
    uint8_t* there = nullptr;
    std::memcpy(&there, own_, sizeof there);
    return there;
  }
  // Keeps the bytes that fit; new ones are indeterminate.
  void resize(size_t size) {
    assert(size <= kMost);
    if (size <= kOwn && !is_long()) {
      size_ = static_cast<uint8_t>(size);
      return;
    }
    // Rarely more than once: sizes grow by an instruction's length.
    std::unique_ptr<uint8_t[]> there(size > kOwn ? new uint8_t[size] : nullptr);
    uint8_t few[kOwn] = {};
    std::copy_n(data(), std::min<size_t>(size, size_), there ? there.get() : few);
    release();
    size_ = static_cast<uint8_t>(size);
    uint8_t* const address = there.release();
    if (address != nullptr)
      std::memcpy(own_, &address, sizeof address);
    else
      std::copy_n(few, size, own_);
  }
  void release() {
    if (is_long()) delete[] heap();
  }
  void swap(ShortBytes& other) noexcept {
    std::swap(own_, other.own_);
    std::swap(size_, other.size_);
  }

  uint8_t own_[kOwn] = {};
  uint8_t size_ = 0;
};
static_assert(sizeof(ShortBytes) == 16);

}  // namespace pinprick
