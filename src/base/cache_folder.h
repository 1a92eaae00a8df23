// A folder of a user's own with files that can be made again: written whole or not at all, and
// bounded together.
//
// Only files are read that this user has made and nobody else can write: the folder and each file
// belong to the effective user, other users have no rights to either, and a file has one name and
// is no link. All access is by a descriptor of the folder, so that nobody who may rename what lies
// above it can put another one in its place. A file comes into being under another name and is
// renamed; so any number of processes may share the folder, and one that dies leaves at most a name
// that is removed later.
//
// What cannot be had or written (a full disk, a home that is read-only, no home) is missing, and no
// error. Whoever reads has still to check what the bytes say: a disk may damage them.
//
// Belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/content_hash.h"
#include "base/fd.h"

namespace pinprick {

// Where programs keep such files: $XDG_CACHE_HOME/NAME; for root /var/cache/NAME; else
// $HOME/.cache/NAME. Nothing: there is no such place. Not from the environment of a set-uid
// program.
std::optional<std::string> user_cache_path(const std::string& name);

class CacheFolder {
 public:
  // All files together; beyond that those go that were not used for longest, down to 3/4 of it.
  static constexpr uint64_t kMost = uint64_t{256} << 20;
  // No file is larger.
  static constexpr uint64_t kMostOfOne = uint64_t{64} << 20;

  // Made if it is not there, and the folder above it. Nothing: it cannot be had, or belongs to
  // somebody else. One of ours that others have rights to loses these.
  static std::optional<CacheFolder> open(const std::string& path, uint64_t most = kMost);

  // Of this folder, and of nobody else: made with the first use.
  const HashKey& key() const { return key_; }

  // Nothing: there is none. One that is not to be trusted is removed.
  std::optional<std::vector<uint8_t>> read(const std::string& name) const;
  void write(const std::string& name, std::span<const uint8_t> bytes) const;
  void remove(const std::string& name) const;
  // Removes what is too much, and what processes that died have begun to write.
  void trim() const;

 private:
  CacheFolder(Fd folder, uint64_t most) : folder_(std::move(folder)), most_(most) {}
  bool read_key();

  Fd folder_;
  uint64_t most_;
  HashKey key_;
};

}  // namespace pinprick
