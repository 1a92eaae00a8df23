// The memory of a process through /proc/PID/mem. It can be read and written whatever its protection
// is; a write to a private file mapping makes a private copy of the page. So no page is ever made
// writable, and none is writable and executable at any time. Any thread may use it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"

namespace pinprick::target {

class Memory {
 public:
  static Result<Memory, SystemError> open(pid_t pid);

  bool read(Address address, std::span<uint8_t> out) const;
  Result<void, SystemError> write(Address address, std::span<const uint8_t> bytes) const;

  // Has the process ended, or does it run another program? Told from the memory alone, and so only
  // right if no other process shares that memory.
  bool is_gone() const;

  // Reads this memory, which must outlive it (image::MemoryReader).
  std::function<bool(Address, std::span<uint8_t>)> reader() const {
    return [this](Address address, std::span<uint8_t> out) { return read(address, out); };
  }

  template <class T>
  bool read_value(Address address, T& out) const {
    return read(address, {reinterpret_cast<uint8_t*>(&out), sizeof out});
  }
  template <class T>
  Result<void, SystemError> write_value(Address address, const T& value) const {
    return write(address, {reinterpret_cast<const uint8_t*>(&value), sizeof value});
  }

 private:
  explicit Memory(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace pinprick::target
