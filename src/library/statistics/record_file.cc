#include "library/statistics/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/machine.h"
#include "ledger/new_file.h"
#include "ledger/runtime_directory.h"

namespace pinprick::library {
namespace {

using layout::RecordedHeader;
using layout::StatisticHeader;

template <class T>
Result<void, SystemError> write_value(int fd, uint64_t offset, const T& value) {
  return write_at(fd, {reinterpret_cast<const uint8_t*>(&value), sizeof value}, offset);
}

Result<void, SystemError> reserve(int fd, uint64_t offset, uint64_t size) {
  if (!may_have_size(offset + size)) return fail(SystemError{EFBIG});
  const int error = ::posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(size));
  if (error != 0) return fail(SystemError{error});
  return {};
}

// Returns field 22 of /proc/self/stat; nullopt without /proc. target::read_status() allocates.
std::optional<uint64_t> own_start_time() {
  const Fd file(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t size = file ? ::read(file.get(), text, sizeof text) : 0;
  std::string_view rest(text, static_cast<size_t>(std::max<ssize_t>(size, 0)));
  const size_t name_end = rest.rfind(')');  // of field 2, which may contain anything
  if (name_end == std::string_view::npos) return std::nullopt;
  rest.remove_prefix(name_end + 1);
  for (int blanks = 0; blanks < 20; ++blanks) {
    const size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(blank + 1);
  }
  uint64_t time = 0;
  if (std::from_chars(rest.data(), rest.data() + rest.size(), time).ec != std::errc{})
    return std::nullopt;
  return time;
}

}  // namespace

Result<FileIdentity, SystemError> FileIdentity::find(uint32_t cpus) {
  const auto folder = ledger::runtime_directory();
  if (!folder) return fail(folder.error());
  FileIdentity identity;
  if (folder->size() >= sizeof identity.folder) return fail(SystemError{ENAMETOOLONG});
  std::copy(folder->begin(), folder->end(), identity.folder);
  const std::string& boot = pinprick::boot_id();
  std::copy_n(boot.begin(), std::min(boot.size(), sizeof identity.boot_id), identity.boot_id);
  identity.cpus = cpus;
  return identity;
}

Result<RecordFile, SystemError> RecordFile::make(const FileIdentity& identity) {
  const auto start_time = own_start_time();
  if (!start_time) return fail(SystemError{ENOENT});
  RecordFile file;
  file.pid_ = ::getpid();
  file.cpus_ = identity.cpus;
  const auto path =
      fmt::format_to_n(file.path_, sizeof file.path_ - 1, "{}/{}-{}{}", identity.folder, file.pid_,
                       *start_time, layout::kRecordedSuffix);
  if (path.size >= sizeof file.path_) return fail(SystemError{ENAMETOOLONG});

  // One of this name is of a program that the process ran before execve.
  ::unlink(file.path_);
  auto made = ledger::make_new_file(identity.folder, file.path_);
  if (!made) return fail(made.error());
  file.unpublished_ = std::move(made->descriptor);
  file.has_name_ = made->has_name;
  const int fd = file.unpublished_.get();
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return fail(SystemError{errno});
  file.device_ = status.st_dev;
  file.inode_ = status.st_ino;

  RecordedHeader header;
  header.pid = file.pid_;
  header.cpu_count = identity.cpus;
  header.start_time = *start_time;
  std::copy(std::begin(identity.boot_id), std::end(identity.boot_id), header.boot_id);
  header.created_ns = realtime_ns();
  if (auto done = reserve(fd, 0, kPageSize); !done) return fail(done.error());
  if (auto done = write_value(fd, 0, header); !done) return fail(done.error());
  auto mapped = file.map(0, kPageSize);
  if (!mapped) return fail(mapped.error());
  file.header_ = static_cast<RecordedHeader*>(*mapped);
  return file;
}

RecordFile::RecordFile(RecordFile&& other) noexcept
    : unpublished_(std::move(other.unpublished_)),
      has_name_(std::exchange(other.has_name_, false)),
      device_(other.device_),
      inode_(other.inode_),
      pid_(other.pid_),
      cpus_(other.cpus_),
      end_(other.end_),
      header_(std::exchange(other.header_, nullptr)) {
  std::copy(std::begin(other.path_), std::end(other.path_), path_);
}

RecordFile::~RecordFile() {
  if (header_ != nullptr) ::munmap(header_, kPageSize);
  if (unpublished_ && has_name_) remove();
}

Result<void, SystemError> RecordFile::publish() {
  if (!has_name_) {
    if (auto named = ledger::name_file(unpublished_.get(), path_); !named) return named;
    has_name_ = true;
  }
  unpublished_.reset();
  return {};
}

Result<int, SystemError> RecordFile::descriptor(Fd& again) const {
  if (unpublished_) return unpublished_.get();
  again = Fd(::open(path_, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  struct stat status = {};
  if (!again || ::fstat(again.get(), &status) != 0) return fail(SystemError{errno});
  if (status.st_dev != device_ || status.st_ino != inode_) return fail(SystemError{ESTALE});
  return again.get();
}

// The file is as long as the statistic, but baselines take space only when they are written.
Result<void, SystemError> RecordFile::put(uint64_t offset, const StatisticHeader& statistic) {
  Fd again;
  const auto fd = descriptor(again);
  if (!fd) return fail(fd.error());
  const uint64_t end = offset + statistic.size;
  if (!may_have_size(end)) return fail(SystemError{EFBIG});
  auto reserved = reserve(*fd, offset, layout::live_size(statistic.fraction_bits, cpus_));
  if (!reserved) return reserved;
  struct stat status = {};
  if (::fstat(*fd, &status) != 0) return fail(SystemError{errno});
  if (static_cast<uint64_t>(status.st_size) < end && ::ftruncate(*fd, static_cast<off_t>(end)) != 0)
    return fail(SystemError{errno});
  return write_value(*fd, offset, statistic);
}

void RecordFile::set_end(uint64_t end) {
  end_ = end;
  __atomic_store_n(&header_->end, end_, __ATOMIC_RELEASE);
}

Result<void*, SystemError> RecordFile::map(uint64_t offset, uint64_t size, void* address) {
  Fd again;
  const auto fd = descriptor(again);
  if (!fd) return fail(fd.error());
  const int flags = MAP_SHARED | MAP_NORESERVE | (address != nullptr ? MAP_FIXED : 0);
  void* const memory =
      ::mmap(address, size, PROT_READ | PROT_WRITE, flags, *fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return fail(SystemError{errno});
  return memory;
}

void RecordFile::remove() const {
  if (pid_ == ::getpid()) ::unlink(path_);
}

}  // namespace pinprick::library
