// A session file on disk (tmpfs): created, found, locked, read and written. What stands in it is
// layout/session_file.h.
//
// A file has no name before it is complete: whoever finds one can read it, however its maker ended.
// Its space is taken before the target touches it: a target must not be killed by SIGBUS because
// the file system is full.
//
// The controller of a session holds a lock on its file (of the open file: fcntl(2), F_OFD_SETLK); a
// file without a lock belongs to a controller that is gone. To ask who holds it takes nothing, so
// that a look never gets into a controller's way. All access is by read and write, never by mapping
// it here: a file that somebody truncates must not kill us.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "layout/session_file.h"
#include "stats/histogram.h"

namespace pinprick::ledger {

struct FileError {
  enum class Cause : uint8_t {
    system,         // `system_error`
    exists,         // there is a session for this process already
    locked,         // its controller lives
    not_a_session,  // or of another version, truncated, inconsistent: `parse_error`
    untrusted,      // its owner is somebody who may not write into the process anyway
    no_space,       // for `size` bytes, or a limit of ours: `system_error`
  } cause = Cause::system;
  std::string path;
  int system_error = 0;
  layout::ParseError parse_error = layout::ParseError::not_a_session;
  uint64_t size = 0;
};

// Calls of a timed function, or hits of a span's points, that are in no histogram, by cause.
struct Unrecorded {
  uint64_t missed = 0;          // there was no slot, no block, or no entry for the thread
  uint64_t unwound = 0;         // left by unwinding
  uint64_t abandoned = 0;       // left by longjmp, as far as it is known
  uint64_t from_generated = 0;  // not timed because generated code made them
  uint64_t repeated = 0;        // starts of a span that had begun
  uint64_t unmatched = 0;       // ends of a span that had not begun
};

class SessionFile {
 public:
  // Makes the file with the session's header and tables, its cells zero, and locks it.
  static Result<SessionFile, FileError> create(const std::string& path,
                                               const layout::Session& session);
  enum class Lock : uint8_t { none, exclusive };
  static Result<SessionFile, FileError> open(const std::string& path, Lock lock);

  const std::string& path() const { return path_; }
  int descriptor() const { return fd_.get(); }
  // Nothing where that cannot be had.
  std::optional<uid_t> owner() const;
  // Does some controller hold the lock? Only meaningful without holding it.
  bool is_locked() const;

  Result<layout::Session, FileError> read() const;
  Result<void, FileError> write_header(const layout::FileHeader& header);
  Result<void, FileError> write_tables(const layout::Session& session);
  Result<void, FileError> write_mapping(const layout::Session& session, size_t index);

  // Sums over all regions.
  std::vector<uint64_t> read_counters(const layout::Session& session) const;
  // By histogram.
  std::vector<Unrecorded> read_unrecorded(const layout::Session& session) const;
  // All of them, in order; those without a block take no memory.
  std::vector<stats::Histogram> read_histograms(const layout::Session& session) const;

  // So many bytes of blocks are reserved at first, if the pool has as many.
  static constexpr uint64_t kFirstBlocks =
      4096 * layout::histogram_size(stats::kDefaultFractionBits);
  layout::PoolHeader read_pool(const layout::Session& session) const;
  // Reserves as many bytes again, and adds them to `bytes`, when half of those were taken. Returns
  // false if there was no need, or there is no room.
  bool extend_pool(const layout::Session& session, uint64_t& bytes);

  // Threads of the target that loaded something need not wait for anybody any more.
  void write_controller_gone(const layout::Session& session);

  void remove();

 private:
  SessionFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  static Result<SessionFile, FileError> open_unnamed(const std::string& path);
  Result<void, FileError> fill(const layout::Session& session);
  Result<void, FileError> give_name();
  Result<void, FileError> limit_pool(const layout::FileHeader& header, uint64_t bytes);
  // Of one region; empty if it cannot be read.
  std::vector<layout::TimeCells> read_time_cells(const layout::Session& session,
                                                 uint64_t region) const;
  std::vector<uint64_t> sum_counters(const layout::Session& session, uint64_t first,
                                     size_t count) const;
  Result<void, FileError> write(uint64_t offset, const void* bytes, size_t size);
  FileError system_error(int error) const {
    return {FileError::Cause::system, path_, error, layout::ParseError::not_a_session, 0};
  }

  Fd fd_;
  std::string path_;
  bool has_name_ = true;
};

}  // namespace pinprick::ledger
