// The mappings of a process, from /proc/PID/maps.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"

namespace pinprick::image {

struct Mapping {
  Range range;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  bool deleted = false;  // the file has been unlinked
  uint64_t offset = 0;   // offset in the file
  uint64_t device = 0;   // as makedev() makes it
  uint64_t inode = 0;    // 0: no file
  std::string path;      // of the file, or a name such as [stack]; empty: anonymous

  // Is it memory without any rights, as at the end of a stack?
  bool is_guard() const { return inode == 0 && !readable && !writable && !executable; }
};

inline bool same_file(const Mapping& a, const Mapping& b) {
  return a.device == b.device && a.inode == b.inode && a.path == b.path;
}

// A mapping, and what only /proc/PID/smaps tells.
struct DetailedMapping {
  Mapping mapping;
  // Ordinary pages: no device's, not large ones, without a protection key or a userfaultfd.
  bool is_ordinary = false;
};
// Takes milliseconds for each gigabyte that the process uses. Errors are those of read_maps().
Result<std::vector<DetailedMapping>, SystemError> read_detailed_maps(pid_t pid);
// Skips lines that are not in the kernel's format.
std::vector<DetailedMapping> parse_detailed_maps(std::string_view text);

// Returns an error (ESRCH), not an empty list, if the process has ended.
Result<std::vector<Mapping>, SystemError> read_maps(pid_t pid);

// Looks up single mappings of a process, in about a microsecond each, however many there are. If
// the kernel has no such query (before Linux 6.11), the first look-up reads all mappings.
// Constructed early, so that a look-up takes no longer than that while the process is stopped.
// Bound to the program that the process runs at construction. Not thread-safe.
class MappingLookup {
 public:
  explicit MappingLookup(pid_t pid);
  // Returns the mapping at the address as it is now, or, if all were read, as it was at the first
  // look-up. Returns nullopt if nothing is mapped there, or if it is not known.
  std::optional<Range> range_at(Address address);

 private:
  Fd maps_;
  std::optional<std::vector<Mapping>> all_;  // if the kernel has no query
};

// Returns the pages of the range that only the process has, as it has a page of a private mapping
// after a write: all others are the file's that is mapped there, or zeros. By address, those next
// to each other as one. Returns nullopt if that cannot be found out.
std::optional<std::vector<Range>> own_pages(pid_t pid, Range range);

// Skips lines that are not in the kernel's format.
std::vector<Mapping> parse_maps(std::string_view text);

// Returns the free ranges between mappings, within [lowest, highest).
std::vector<Range> free_ranges(const std::vector<Mapping>& maps, Address lowest, Address highest);

// Returns whether this is executable memory of no program or library, which a code generator has
// made: anonymous, or a file that exists only in memory (memfd_create).
bool is_anonymous_code(const Mapping& mapping);

}  // namespace pinprick::image
