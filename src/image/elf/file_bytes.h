// FileBytes: the bytes of one file: of an open one, of one that is opened for each read, or of a
// copy in memory.
//
// The file itself is never mapped: another process may cut it short, and reading a mapped file
// kills the process then.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/file_version.h"
#include "base/result.h"
#include "base/zero_pages.h"

namespace pinprick::image {

class FileBytes {
 public:
  // Whether to find out, before anything is read, if later changes of the file can be noticed. That
  // takes a lease for a moment, so it is not for the process of a user.
  enum class Proof : bool { none, wanted };
  // Whether the file stays open as long as this object. In a user's process none may: a program
  // that closes descriptors which it does not know opens files of its own under their numbers, and
  // we would read these, and close them. So there the file is opened for each read. If another one
  // has its path by then, or if it has been written to, what is not known yet reads as missing.
  enum class Descriptor : bool { kept, none };

  // A part of a file, by offset.
  struct Part {
    uint64_t offset = 0;
    uint64_t size = 0;
  };

  FileBytes() = default;
  // The file stays open until close_unless_kept().
  static Result<FileBytes, SystemError> open(const std::string& path, Proof proof,
                                             Descriptor descriptor);
  // `owner` keeps the bytes alive. `descriptor` is for files that belong to it.
  static FileBytes in_memory(std::span<uint8_t> bytes, std::shared_ptr<const void> owner,
                             Descriptor descriptor);
  void close_unless_kept();

  uint64_t size() const { return size_; }
  Proof proof() const { return proof_; }
  Descriptor descriptor() const { return descriptor_; }
  // Returns -1 if it is not an open file.
  int fd() const { return fd_.get(); }
  // Returns the bytes at their offsets, if they are in memory; of a file that is not kept open,
  // those that bring() was called for. Empty for an open file.
  std::span<uint8_t> memory() const { return pages_ ? pages_->bytes() : memory_; }
  // Is all of it there?
  bool is_in_memory() const { return owner_ != nullptr; }
  // Returns the version of a file that was opened with Proof::wanted, and that is proved to have
  // been unchanged from before anything was read of it until now (base/file_version.h); nullopt if
  // there is no proof.
  std::optional<FileVersion> unchanged_version() const;
  // Is it the file with this inode, on this device?
  bool is_file(uint64_t device, uint64_t inode) const;

  // Returns false if the file is shorter, or cannot be read.
  bool read(std::span<uint8_t> out, uint64_t offset) const;
  // Makes sure that memory() has these bytes, for a file that is not kept open; for other files it
  // does nothing. Returns false if they cannot be read.
  bool bring(const Part& part) const;

 private:
  // What tells the file from another one at its path, and from what it was before it was written
  // to. Another name or mode makes no difference.
  struct Identity {
    uint64_t device = 0, inode = 0, size = 0;
    int64_t written_s = 0, written_ns = 0;
    friend bool operator==(const Identity&, const Identity&) = default;
  };
  static std::optional<Identity> identity_of(int fd);
  // Returns an empty descriptor if the path no longer leads to the file.
  Fd reopened() const;

  std::string path_;
  Fd fd_;
  Proof proof_ = Proof::none;
  Descriptor descriptor_ = Descriptor::kept;
  uint64_t size_ = 0;
  std::optional<FileVersion> proved_;  // before anything was read
  // Of a file that is not kept open: which one it was, and as much of it as was brought.
  std::optional<Identity> identity_;
  std::unique_ptr<ZeroPages> pages_;
  mutable std::vector<bool> brought_;  // for each of these pages
  std::span<uint8_t> memory_;          // instead of a file
  std::shared_ptr<const void> owner_;
};

}  // namespace pinprick::image
