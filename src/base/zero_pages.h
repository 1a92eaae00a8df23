// Zeroed memory that takes none until it is written: for copies of files with holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace pinprick {

class ZeroPages {
 public:
  // Empty if the memory cannot be mapped.
  explicit ZeroPages(size_t size);
  ZeroPages(ZeroPages&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  ZeroPages& operator=(ZeroPages&&) = delete;
  ~ZeroPages();

  std::span<uint8_t> bytes() const { return bytes_; }

 private:
  std::span<uint8_t> bytes_;
};

}  // namespace pinprick
