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
  bool deleted = false;  // the file has no name any more
  uint64_t offset = 0;   // in the file
  uint64_t device = 0;   // as makedev() makes it
  uint64_t inode = 0;    // 0: no file
  std::string path;      // of a file, or a name like [stack]; empty: anonymous
};

// Of a process that has ended an error (ESRCH): it is not that nothing is mapped.
Result<std::vector<Mapping>, SystemError> read_maps(pid_t pid);

// Asks for single mappings of a process: a microsecond each, however many there are. Where the
// kernel cannot be asked (before Linux 6.11) all are read when the first is asked for. Made
// beforehand, it needs no more than that while a process stands still. Stays with the program that
// runs when it is made.
class MappingLookup {
 public:
  explicit MappingLookup(pid_t pid);
  // As it is now; or, where all are read, as it was at the first question. Nothing: no mapping lies
  // there, or nobody can tell.
  std::optional<Range> range_at(Address address);

 private:
  Fd maps_;
  std::optional<std::vector<Mapping>> all_;  // where they are not asked for
};

// Lines that do not look as the kernel writes them are left out.
std::vector<Mapping> parse_maps(std::string_view text);

// The free ranges between mappings, within [lowest, highest).
std::vector<Range> free_ranges(const std::vector<Mapping>& maps, Address lowest, Address highest);

// Executable memory that belongs to no program and no library: what a code generator has made. It
// is anonymous, or a file that only lives in memory (memfd_create).
bool is_anonymous_code(const Mapping& mapping);

// Is there any, besides what lies in these ranges?
bool has_anonymous_code(const std::vector<Mapping>& maps, std::span<const Range> except = {});

}  // namespace pinprick::image
