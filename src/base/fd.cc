#include "base/fd.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace pinprick {

Fd::~Fd() {
  reset();
}

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

namespace {

enum class Until : uint8_t { end_of_file, short_read };

Result<std::string, SystemError> read_until(int fd, Until until) {
  std::string text;
  char buffer[16384];
  for (;;) {
    ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(SystemError{errno});
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
    if (until == Until::short_read && static_cast<size_t>(n) < sizeof buffer) return text;
  }
}

Result<std::string, SystemError> read_proc_until(const std::string& path, Until until) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail(SystemError{errno});
  return read_until(fd.get(), until);
}

Result<Fd, SystemError> if_regular(Fd fd) {
  if (!fd) return fail(SystemError{errno});
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return fail(SystemError{errno});
  if (S_ISREG(status.st_mode)) return fd;
  return fail(SystemError{S_ISDIR(status.st_mode)   ? EISDIR
                          : S_ISLNK(status.st_mode) ? ELOOP
                                                    : ENODEV});
}

}  // namespace

// To open a device may already do something: one that reads a path of another user's looks first.
Result<Fd, SystemError> open_file(const std::string& path, int flags, unsigned mode) {
  constexpr int kAlways = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  if ((flags & O_CREAT) == 0) {
    auto seen = if_regular(Fd(::open(path.c_str(), O_PATH | (flags & O_NOFOLLOW) | O_CLOEXEC)));
    if (!seen) return seen;
    const std::string same = "/proc/self/fd/" + std::to_string(seen->get());
    Fd fd(::open(same.c_str(), (flags & ~O_NOFOLLOW) | kAlways));
    if (fd || errno != ENOENT) return if_regular(std::move(fd));
    // There is no /proc.
  }
  return if_regular(Fd(::open(path.c_str(), flags | kAlways, mode)));
}

Result<std::string, SystemError> read_file(const std::string& path) {
  auto fd = open_file(path, O_RDONLY);
  if (!fd) return fail(fd.error());
  return read_all(fd->get());
}

Result<std::string, SystemError> read_proc(const std::string& path) {
  return read_proc_until(path, Until::end_of_file);
}

Result<std::string, SystemError> read_proc_record(const std::string& path) {
  return read_proc_until(path, Until::short_read);
}

Result<std::string, SystemError> read_all(int fd) {
  return read_until(fd, Until::end_of_file);
}

Result<void, SystemError> read_at(int fd, std::span<uint8_t> out, uint64_t offset) {
  while (!out.empty()) {
    ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(SystemError{errno});
    if (n == 0) return fail(SystemError{EIO});
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Result<void, SystemError> write_at(int fd, std::span<const uint8_t> bytes, uint64_t offset) {
  while (!bytes.empty()) {
    ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(SystemError{errno});
    if (n == 0) return fail(SystemError{EIO});
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

bool may_have_size(uint64_t size) {
  struct rlimit limit = {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || size <= limit.rlim_cur;
}

namespace {
rlimit former_limit = {};  // 0: it was not raised
}  // namespace

void raise_descriptor_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  former_limit = limit;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void restore_descriptor_limit() {
  if (former_limit.rlim_max != 0) ::setrlimit(RLIMIT_NOFILE, &former_limit);
}

}  // namespace pinprick
