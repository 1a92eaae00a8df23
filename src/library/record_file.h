// The file of this process's recorded statistics (layout/recorded_file.h), as the process makes it
// and maps it. For one thread at a time.
//
// Space is allocated before it is mapped for writing: a full file system must not kill the program.
// No descriptor is kept, as programs close those that they do not know, and open others under the
// same numbers.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "layout/recorded_file.h"

namespace pinprick::library {

struct RecordPlace {
  uint64_t offset = 0;
  layout::StatisticHeader header;
};

class RecordFile {
 public:
  // Makes a file with these statistics, all cells 0. It has no name until publish().
  static Result<RecordFile, SystemError> make(uint32_t cpus, std::span<const RecordPlace> places);
  RecordFile(RecordFile&& other) noexcept;
  RecordFile& operator=(RecordFile&&) = delete;
  ~RecordFile();  // leaves the file itself

  // Gives the file its name, in place of one that the process had for an earlier program.
  Result<void, SystemError> publish();

  // Allocates space for a statistic at end().
  Result<void, SystemError> extend(const layout::StatisticHeader& statistic);
  // Tells readers that the statistic at end() is complete.
  void add_to_end(uint64_t size);
  uint64_t end() const { return end_; }

  // Maps a part of the file, which may reach beyond its end; at `address` if that is not nullptr.
  // Fails with ESTALE if the path has become another file's.
  Result<void*, SystemError> map(uint64_t offset, uint64_t size, void* address = nullptr);

  const std::string& path() const { return path_; }
  // Removes the file, if this is the process that made it.
  void remove() const;

 private:
  RecordFile() = default;
  Result<Fd, SystemError> open_again() const;
  Result<void, SystemError> allocate(int fd, uint64_t offset,
                                     const layout::StatisticHeader& statistic) const;

  std::string path_;
  Fd unpublished_;  // until publish()
  bool has_name_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  pid_t pid_ = 0;
  uint32_t cpus_ = 0;
  uint64_t end_ = 0;
  layout::RecordedHeader* header_ = nullptr;  // mapped
};

}  // namespace pinprick::library
