// The statistics that programs record about themselves (include/pinprick/kstats.h), for other
// processes: found, read, stopped, resumed, reset.
//
// The file may be of a program that runs or that has ended. It is never mapped, and nothing in it
// is trusted. All changes are in the file alone; the program is not stopped and does not notice.
// One thread at a time uses a RecordedFile.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "image/maps.h"
#include "layout/recorded_file.h"
#include "stats/cpu_histogram.h"

namespace pinprick::ledger {

struct RecordedError {
  enum class Cause : uint8_t {
    system,        // `system_error`
    not_recorded,  // no file of recorded statistics, or of another version, or inconsistent
    untrusted,     // its owner is neither root, nor this user, nor the owner of the process
    no_statistic,  // none has this name
    busy,          // another process keeps changing the file
  } cause = Cause::system;
  std::string path;
  int system_error = 0;
};

// Everything since the last reset.
struct RecordedStatistic {
  std::string name;
  unsigned bits = 0;
  bool running = false;
  uint64_t created_ns = 0;  // CLOCK_REALTIME
  uint64_t resets = 0;      // another number after each reset
  uint64_t unmatched_starts = 0;
  uint64_t unmatched_ends = 0;
  uint64_t missed = 0;  // starts for which the program had no memory
  // One histogram for each CPU that has recorded something, by ascending CPU number.
  std::vector<stats::CpuHistogram> cpus;

  stats::Histogram total() const;
};

class RecordedFile {
 public:
  enum class Access : uint8_t { read, change };
  static Result<RecordedFile, RecordedError> open(const std::string& path, Access access);

  const std::string& path() const { return path_; }
  pid_t pid() const { return header_.pid; }
  uint64_t start_time() const { return header_.start_time; }
  uint64_t created_ns() const { return header_.created_ns; }
  // One more than the highest CPU that the program may have recorded on.
  uint32_t cpu_count() const { return header_.cpu_count; }
  // Does the process still run? It may run another program by now.
  bool process_lives() const;
  // Do these mappings have the file? If those of its process do not, that runs another program.
  bool is_in(const std::vector<image::Mapping>& maps) const;

  // Returns the statistics in the order in which their space was first taken. Those that are made
  // or removed meanwhile may be missing.
  Result<std::vector<RecordedStatistic>, RecordedError> read() const;
  Result<RecordedStatistic, RecordedError> read(const std::string& name) const;

  // These need Access::change. A statistic that is resumed or reset forgets the starts that have no
  // end yet. Fails with `busy` if another process holds the file's lock for a second, with
  // `no_statistic` also if the program removes the statistic meanwhile, and with EFBIG if this
  // process's own limit of file sizes (RLIMIT_FSIZE) is below the size of the file.
  Result<void, RecordedError> set_running(const std::string& name, bool running);
  Result<void, RecordedError> reset(const std::string& name);

 private:
  struct Entry {
    uint64_t offset = 0;
    layout::StatisticHeader header;
  };
  RecordedFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  RecordedError error(RecordedError::Cause cause, int system_error = 0) const {
    return {cause, path_, system_error};
  }
  // Leaves out entries that no statistic uses.
  Result<std::vector<Entry>, RecordedError> entries() const;
  Result<Entry, RecordedError> entry_of(const std::string& name) const;
  // Returns nullopt if it is gone, or changes all the time.
  std::optional<RecordedStatistic> read_entry(const Entry& entry) const;
  Result<void, RecordedError> lock();
  void unlock();
  template <class Change>
  Result<void, RecordedError> change(const std::string& name, Change&& change);
  // Fails with EFBIG where the process may not write.
  Result<void, RecordedError> write(uint64_t offset, std::span<const uint8_t> bytes);
  // Writes a word of the header. Fails with `no_statistic` if the header has changed since.
  Result<void, RecordedError> write_word(Entry& entry, uint64_t layout::StatisticHeader::*word,
                                         uint64_t value);

  Fd fd_;
  std::string path_;
  layout::RecordedHeader header_;
};

// Those of the process, or of all processes. Files that cannot be read or are not trusted are left
// out, and their errors are kept. A file that vanishes meanwhile is no error.
struct FoundRecordings {
  std::vector<RecordedFile> files;
  std::vector<RecordedError> unreadable;
};
FoundRecordings find_recordings(std::optional<pid_t> pid, RecordedFile::Access access);

}  // namespace pinprick::ledger
