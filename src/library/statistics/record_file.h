// The file of this process's recorded statistics (layout/recorded_file.h), as the process makes it
// and maps it. For one thread at a time.
//
// Space is allocated before it is mapped for writing: a full file system must not kill the program.
// No descriptor is kept, as programs close those that they do not know, and open others under the
// same numbers. Nothing here but FileIdentity::find() allocates memory, since a record in a signal
// handler may be the first one of a forked child.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/fd.h"
#include "base/result.h"
#include "layout/recorded_file.h"

namespace pinprick::library {

constexpr size_t kMostPath = 256;

// What a process's file has in common with those of its forked children.
struct FileIdentity {
  char folder[kMostPath] = {};
  char boot_id[sizeof layout::RecordedHeader::boot_id] = {};
  uint32_t cpus = 0;

  static Result<FileIdentity, SystemError> find(uint32_t cpus);
};

class RecordFile {
 public:
  // Makes a file without statistics for this process. It has no name until publish().
  static Result<RecordFile, SystemError> make(const FileIdentity& identity);
  RecordFile(RecordFile&& other) noexcept;
  RecordFile& operator=(RecordFile&&) = delete;
  ~RecordFile();  // leaves the file itself, if it is published

  // Gives the file its name, in place of one that the process had for an earlier program.
  Result<void, SystemError> publish();

  // Allocates space for a statistic, and writes its header.
  Result<void, SystemError> put(uint64_t offset, const layout::StatisticHeader& statistic);
  // Tells readers that the statistics up to here are complete.
  void set_end(uint64_t end);
  uint64_t end() const { return end_; }

  // Maps a part of the file, which may reach beyond its end; at `address` if that is not nullptr.
  // Fails with ESTALE if the path has become another file's.
  Result<void*, SystemError> map(uint64_t offset, uint64_t size, void* address = nullptr);

  const char* path() const { return path_; }
  // Removes the file, if this is the process that made it.
  void remove() const;

 private:
  RecordFile() = default;
  // Returns the descriptor of the file, kept in `again` if it had to be opened.
  Result<int, SystemError> descriptor(Fd& again) const;

  char path_[kMostPath] = {};
  Fd unpublished_;  // until publish()
  bool has_name_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  pid_t pid_ = 0;
  uint32_t cpus_ = 0;
  uint64_t end_ = kPageSize;
  layout::RecordedHeader* header_ = nullptr;  // mapped
};

}  // namespace pinprick::library
