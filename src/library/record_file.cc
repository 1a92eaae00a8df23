#include "library/record_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/machine.h"
#include "ledger/new_file.h"
#include "ledger/runtime_directory.h"
#include "target/procfs.h"

namespace pinprick::library {
namespace {

using layout::RecordedHeader;
using layout::StatisticHeader;

template <class T>
Result<void, SystemError> write_value(int fd, uint64_t offset, const T& value) {
  return write_at(fd, {reinterpret_cast<const uint8_t*>(&value), sizeof value}, offset);
}

// A file that grows beyond the limit would end the program by SIGXFSZ.
bool may_have_size(uint64_t size) {
  struct rlimit limit = {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || size <= limit.rlim_cur;
}

Result<void, SystemError> reserve(int fd, uint64_t offset, uint64_t size) {
  if (!may_have_size(offset + size)) return fail(SystemError{EFBIG});
  const int error = ::posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(size));
  if (error != 0) return fail(SystemError{error});
  return {};
}

Result<RecordedHeader, SystemError> header_of_this_process(uint32_t cpus) {
  const pid_t pid = ::getpid();
  const auto status = target::read_status(pid);
  if (!status) return fail(SystemError{ESRCH});  // no /proc
  RecordedHeader header;
  header.pid = pid;
  header.cpu_count = cpus;
  header.start_time = status->start_time;
  const std::string boot = boot_id();
  std::copy_n(boot.begin(), std::min(boot.size(), sizeof header.boot_id), header.boot_id);
  header.created_ns = realtime_ns();
  return header;
}

}  // namespace

Result<RecordFile, SystemError> RecordFile::make(uint32_t cpus,
                                                 std::span<const RecordPlace> places) {
  auto header = header_of_this_process(cpus);
  if (!header) return fail(header.error());
  const auto folder = ledger::runtime_directory();
  if (!folder) return fail(folder.error());
  RecordFile file;
  file.path_ = *folder + "/" + ledger::recorded_file_name(header->pid, header->start_time);
  file.pid_ = header->pid;
  file.cpus_ = cpus;
  for (const RecordPlace& place : places)
    header->end = std::max(header->end, place.offset + place.header.size);
  file.end_ = header->end;

  // One of this name is of a program that the process ran before execve.
  ::unlink(file.path_.c_str());
  auto made = ledger::make_new_file(file.path_);
  if (!made) return fail(made.error());
  file.unpublished_ = std::move(made->descriptor);
  file.has_name_ = made->has_name;
  const int fd = file.unpublished_.get();
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return fail(SystemError{errno});
  file.device_ = status.st_dev;
  file.inode_ = status.st_ino;

  auto done = reserve(fd, 0, kPageSize);
  for (const RecordPlace& place : places) {
    if (done) done = file.allocate(fd, place.offset, place.header);
    if (done) done = write_value(fd, place.offset, place.header);
  }
  if (done) done = write_value(fd, 0, *header);
  auto mapped = done ? file.map(0, kPageSize) : Result<void*, SystemError>(fail(done.error()));
  if (!mapped) {
    if (file.has_name_) file.remove();
    return fail(mapped.error());
  }
  file.header_ = static_cast<RecordedHeader*>(*mapped);
  return file;
}

RecordFile::RecordFile(RecordFile&& other) noexcept
    : path_(std::move(other.path_)),
      unpublished_(std::move(other.unpublished_)),
      has_name_(other.has_name_),
      device_(other.device_),
      inode_(other.inode_),
      pid_(other.pid_),
      cpus_(other.cpus_),
      end_(other.end_),
      header_(std::exchange(other.header_, nullptr)) {}

RecordFile::~RecordFile() {
  if (header_ != nullptr) ::munmap(header_, kPageSize);
}

Result<void, SystemError> RecordFile::publish() {
  if (!has_name_) {
    if (auto named = ledger::name_file(unpublished_.get(), path_); !named) return named;
    has_name_ = true;
  }
  unpublished_.reset();
  return {};
}

Result<Fd, SystemError> RecordFile::open_again() const {
  auto fd = open_file(path_, O_RDWR | O_NOFOLLOW);
  if (!fd) return fd;
  struct stat status = {};
  if (::fstat(fd->get(), &status) != 0) return fail(SystemError{errno});
  if (status.st_dev != device_ || status.st_ino != inode_) return fail(SystemError{ESTALE});
  return fd;
}

// The file is as long as the statistic, but baselines take space only when they are written.
Result<void, SystemError> RecordFile::allocate(int fd, uint64_t offset,
                                               const StatisticHeader& statistic) const {
  const uint64_t end = offset + statistic.size;
  if (!may_have_size(end)) return fail(SystemError{EFBIG});
  auto reserved = reserve(fd, offset, layout::live_size(statistic.fraction_bits, cpus_));
  if (!reserved) return reserved;
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return fail(SystemError{errno});
  if (static_cast<uint64_t>(status.st_size) < end && ::ftruncate(fd, static_cast<off_t>(end)) != 0)
    return fail(SystemError{errno});
  return {};
}

Result<void, SystemError> RecordFile::extend(const StatisticHeader& statistic) {
  const auto fd = open_again();
  if (!fd) return fail(fd.error());
  return allocate(fd->get(), end_, statistic);
}

void RecordFile::add_to_end(uint64_t size) {
  end_ += size;
  __atomic_store_n(&header_->end, end_, __ATOMIC_RELEASE);
}

Result<void*, SystemError> RecordFile::map(uint64_t offset, uint64_t size, void* address) {
  Fd again;
  if (!unpublished_) {
    auto opened = open_again();
    if (!opened) return fail(opened.error());
    again = *std::move(opened);
  }
  const int fd = unpublished_ ? unpublished_.get() : again.get();
  const int flags = MAP_SHARED | MAP_NORESERVE | (address != nullptr ? MAP_FIXED : 0);
  void* const memory =
      ::mmap(address, size, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return fail(SystemError{errno});
  return memory;
}

void RecordFile::remove() const {
  if (pid_ == ::getpid()) ::unlink(path_.c_str());
}

}  // namespace pinprick::library
