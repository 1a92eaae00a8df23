// FileVersion: whether an open file still has the bytes that were read from it before.
//
// A controller that lives on looks at the same libraries again and again. The kernel notes each
// change of a file in its change time, which no program can set, short of setting the clock back.
// That alone proves nothing: two changes may have the same time, and a write through a mapping that
// was there before may leave none. So a version is relied on only if it was settled before the
// bytes were read (is_settled()):
//
//   - No process has the file open for writing, or a mapping through which it can be written: the
//     kernel grants a read lease only then. All later writers must open it anew.
//   - The last change was over two seconds ago, longer than any file system takes for two changes
//     to have different times. So each later change gets another time.
//   - The file system is one of those that note a first write through a mapping, too.
//
// If the version is the same at a later look, the bytes are.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

namespace pinprick {

struct FileVersion {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t changed_s = 0, changed_ns = 0;

  friend auto operator<=>(const FileVersion&, const FileVersion&) = default;
};

// Returns nullopt if the descriptor cannot be looked at.
std::optional<FileVersion> version_of(int fd);

// Returns whether any change from now on gives the file another version than `version`, which it
// had a moment ago. Without the right to find out, returns false: a lease takes the file's owner,
// or CAP_LEASE. The lease lasts for two system calls.
bool is_settled(int fd, const FileVersion& version);

}  // namespace pinprick
