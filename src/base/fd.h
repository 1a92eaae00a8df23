// File descriptors that close themselves, and reads of whole files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace pinprick {

// errno of a failed system call.
struct SystemError {
  int number = 0;
};

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// open(2) with O_CLOEXEC. Never blocks: special files are refused with ENODEV, because a path that
// a target names may be a FIFO.
Result<Fd, SystemError> open_file(const std::string& path, int flags, unsigned mode = 0);

// Reads a whole file. Also works for files in /proc, whose size is not known in advance.
Result<std::string, SystemError> read_file(const std::string& path);
// The same for a file of /proc that this program names itself, with fewer system calls. A record is
// a file that the kernel makes in one piece of at most 16 KB: `stat`, `status`, `auxv`, `comm`.
Result<std::string, SystemError> read_proc(const std::string& path);
Result<std::string, SystemError> read_proc_record(const std::string& path);
// The same for an open file, from its current position.
Result<std::string, SystemError> read_all(int fd);

// Reads exactly out.size() bytes at `offset`. Fails with EIO if the file ends before.
Result<void, SystemError> read_at(int fd, std::span<uint8_t> out, uint64_t offset);

// Writes all of `bytes` at `offset`.
Result<void, SystemError> write_at(int fd, std::span<const uint8_t> bytes, uint64_t offset);

// May a file of this process have this size? One that writes after the limit (RLIMIT_FSIZE), even
// into a file that is longer already, is ended by SIGXFSZ.
bool may_have_size(uint64_t size);

// Allows as many open descriptors as the system lets this process have: there is one for each
// session, and a process may have thousands. For programs, which call it first.
void raise_descriptor_limit();
// Puts the former limit back, for a child that will execute another program. Async-signal-safe.
void restore_descriptor_limit();

}  // namespace pinprick
