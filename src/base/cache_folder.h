// CacheFolder: a folder for files of one user that can be made again. Files are written whole or
// not at all, and their total size is limited.
//
// Only files that this user made, and that no other user can write, are read: the folder and each
// file belong to the effective user, other users have no rights to either, and a file has a single
// name and is not a link. All access is through a descriptor of the folder, so that a user who may
// rename directories above it cannot substitute another. A file is created under another name and
// then renamed. So any number of processes may share the folder, and one that dies leaves at most
// such a name, which is removed later.
//
// Failures (a full disk, a read-only home, no home) are not errors: files are then missing. Readers
// must still check the contents: a disk may damage them.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/content_hash.h"
#include "base/fd.h"

namespace pinprick {

// Returns where programs keep such files: $XDG_CACHE_HOME/NAME; for root /var/cache/NAME; else
// $HOME/.cache/NAME. Returns nullopt if there is no such folder. A set-uid program ignores its
// environment.
std::optional<std::string> user_cache_path(const std::string& name);

class CacheFolder {
 public:
  // The limit of all files together. Beyond it the least recently used are removed, down to 3/4 of
  // it.
  static constexpr uint64_t kMost = uint64_t{256} << 20;
  // The limit of one file.
  static constexpr uint64_t kMostOfOne = uint64_t{64} << 20;

  // Opens the folder, and creates it and the folder above it if needed. If other users have rights
  // to it, these are removed. Returns nullopt if it cannot be opened or belongs to another user.
  static std::optional<CacheFolder> open(const std::string& path, uint64_t most = kMost);

  // Returns the folder's own secret key, which was made when it was first used.
  const HashKey& key() const { return key_; }

  // Returns nullopt if there is no such file. Removes a file that cannot be trusted.
  std::optional<std::vector<uint8_t>> read(const std::string& name) const;
  void write(const std::string& name, std::span<const uint8_t> bytes) const;
  void remove(const std::string& name) const;
  // Removes files beyond the limit, and unfinished files of processes that died.
  void trim() const;

 private:
  CacheFolder(Fd folder, uint64_t most) : folder_(std::move(folder)), most_(most) {}
  bool read_key();

  Fd folder_;
  uint64_t most_;
  HashKey key_;
};

}  // namespace pinprick
