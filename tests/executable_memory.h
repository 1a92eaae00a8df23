// Memory for code that tests emit and then call: written while writable, run while executable.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "base/address.h"

namespace pinprick {

class ExecutableMemory {
 public:
  explicit ExecutableMemory(uint64_t size, Address wanted = 0) : size_(align_up(size, kPageSize)) {
    memory_ = mmap(reinterpret_cast<void*>(wanted), size_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | (wanted ? MAP_FIXED_NOREPLACE : 0), -1, 0);
    if (memory_ == MAP_FAILED) memory_ = nullptr;
  }
  ExecutableMemory(const ExecutableMemory&) = delete;
  ExecutableMemory& operator=(const ExecutableMemory&) = delete;
  ~ExecutableMemory() {
    if (memory_ != nullptr) munmap(memory_, size_);
  }

  Address address() const { return reinterpret_cast<Address>(memory_); }
  uint8_t* data() { return static_cast<uint8_t*>(memory_); }
  uint64_t size() const { return size_; }

  void write(uint64_t offset, std::span<const uint8_t> bytes) {
    std::memcpy(data() + offset, bytes.data(), bytes.size());
  }
  // [offset, size) from here on is code.
  void seal(uint64_t offset = 0) {
    mprotect(data() + offset, size_ - offset, PROT_READ | PROT_EXEC);
  }
  template <class F>
  F* function(uint64_t offset) {
    return reinterpret_cast<F*>(data() + offset);
  }

 private:
  void* memory_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace pinprick
