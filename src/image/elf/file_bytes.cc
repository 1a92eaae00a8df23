#include "image/elf/file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/address.h"

namespace pinprick::image {

Result<FileBytes, SystemError> FileBytes::open(const std::string& path, Proof proof,
                                               Descriptor descriptor) {
  auto fd = open_file(path, O_RDONLY);
  if (!fd) return fail(fd.error());
  FileBytes file;
  file.path_ = path;
  file.fd_ = *std::move(fd);
  file.proof_ = proof;
  file.descriptor_ = descriptor;
  const auto version = proof == Proof::wanted ? version_of(file.fd()) : std::nullopt;
  if (version && is_settled(file.fd(), *version)) file.proved_ = version;
  if (version) {
    file.size_ = version->size;
  } else {
    struct stat status = {};
    if (::fstat(file.fd(), &status) != 0) return fail(SystemError{errno});
    file.size_ = static_cast<uint64_t>(status.st_size);
  }
  if (descriptor == Descriptor::kept) return file;
  file.identity_ = identity_of(file.fd());
  file.pages_ = std::make_unique<ZeroPages>(file.size_);
  if (!file.identity_ || file.identity_->size != file.size_ ||
      file.pages_->bytes().size() != file.size_)
    return fail(SystemError{EIO});
  file.brought_.resize(align_up(file.size_, kPageSize) / kPageSize);
  return file;
}

FileBytes FileBytes::in_memory(std::span<uint8_t> bytes, std::shared_ptr<const void> owner,
                               Descriptor descriptor) {
  FileBytes file;
  file.descriptor_ = descriptor;
  file.size_ = bytes.size();
  file.memory_ = bytes;
  file.owner_ = std::move(owner);
  return file;
}

void FileBytes::close_unless_kept() {
  if (descriptor_ == Descriptor::none) fd_.reset();
}

std::optional<FileBytes::Identity> FileBytes::identity_of(int fd) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return std::nullopt;
  return Identity{status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size),
                  status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

Fd FileBytes::reopened() const {
  auto file = open_file(path_, O_RDONLY);
  if (!file || identity_of(file->get()) != identity_) return {};
  return *std::move(file);
}

std::optional<FileVersion> FileBytes::unchanged_version() const {
  const auto now = version_of(fd());
  return now == proved_ ? now : std::nullopt;
}

bool FileBytes::is_file(uint64_t device, uint64_t inode) const {
  const auto now = version_of(fd_ ? fd() : reopened().get());
  return now && now->device == device && now->inode == inode;
}

bool FileBytes::read(std::span<uint8_t> out, uint64_t offset) const {
  if (fd_) return read_at(fd(), out, offset).ok();
  if (pages_) {
    const Fd again = reopened();
    return again && read_at(again.get(), out, offset).ok();
  }
  if (offset > memory_.size() || out.size() > memory_.size() - offset) return false;
  if (!out.empty()) std::memcpy(out.data(), memory_.data() + offset, out.size());
  return true;
}

bool FileBytes::bring(const Part& part) const {
  if (!pages_) return true;
  const auto bytes = pages_->bytes();
  if (part.offset > bytes.size() || part.size > bytes.size() - part.offset) return false;
  const auto is_missing = [&](uint64_t page) { return !brought_[page]; };
  const uint64_t end = align_up(part.offset + part.size, kPageSize) / kPageSize;
  Fd again;
  for (uint64_t page = part.offset / kPageSize; page < end; ++page) {
    if (!is_missing(page)) continue;
    uint64_t last = page + 1;
    while (last < end && is_missing(last)) ++last;
    if (!fd_ && !again) again = reopened();
    const uint64_t at = page * kPageSize;
    const uint64_t length = std::min<uint64_t>(last * kPageSize, bytes.size()) - at;
    if (!read_at(fd_ ? fd() : again.get(), bytes.subspan(at, length), at)) return false;
    std::fill(brought_.begin() + static_cast<ptrdiff_t>(page),
              brought_.begin() + static_cast<ptrdiff_t>(last), true);
    page = last;
  }
  return true;
}

}  // namespace pinprick::image
