// Uprobes: breakpoints that the kernel keeps in a process, and counts itself (Linux 6.6, root). A
// hit costs a microsecond or more, and no instruction is out of their reach.
//
// They are the kernel's, from the breakpoint to the counter: a thread that meets one needs nothing
// of ours, and they are gone when their descriptors are closed, whoever closes them. Many at once
// through a BPF link. (A perf event for each would have to be opened for each thread, and one that
// new threads inherit makes the kernel look for the file's name in the target's memory, where it is
// not: their creation fails.)
#pragma once

#include <linux/bpf.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"
#include "image/maps.h"
#include "target/memory.h"

namespace pinprick::target {

// An instruction as the kernel knows it.
struct PlaceInFile {
  const image::Mapping* mapping = nullptr;
  uint64_t offset = 0;
};
std::optional<PlaceInFile> place_in_file(const std::vector<image::Mapping>& maps, Address address);

// A BPF program for uprobes.
Result<Fd, SystemError> load_uprobe_program(std::span<const bpf_insn> instructions);
// `cookies`: what the program is told of each place; may be empty. ESRCH where `pid` is a thread.
Result<Fd, SystemError> link_uprobes(const Fd& program, pid_t pid, const std::string& path,
                                     std::span<const uint64_t> offsets,
                                     std::span<const uint64_t> cookies);

class KernelUprobes {
 public:
  // May, and can, this kernel keep them for us? Errors as of place().
  static Result<void, SystemError> available();
  // In a process, whichever of its threads comes by; not in its children. At least one of the
  // addresses, none of which has been written to. EOPNOTSUPP: this kernel would count one thread
  // alone, or knows no such links.
  static Result<KernelUprobes, SystemError> place(pid_t pid, const Memory& memory,
                                                  std::span<const Address> addresses);

  // By address, as given; false: the kernel does not want a breakpoint there.
  const std::vector<bool>& placed() const { return placed_; }
  // Also after remove().
  std::vector<uint64_t> hits() const;
  // Takes them out. The kernel may do that in its own time: waits until it has, ten seconds at
  // most.
  void remove(const Memory& memory);

 private:
  struct Site {
    uint64_t offset = 0;
    uint64_t index = 0;
  };
  Result<void, SystemError> load(size_t counters);
  Result<void, SystemError> place(pid_t pid, const std::string& path, std::span<const Site> sites);

  Fd counters_;
  Fd program_;
  std::vector<Fd> links_;
  struct Original {
    Address address = 0;
    uint8_t byte = 0;
  };
  std::vector<Original> originals_;
  std::vector<bool> placed_;
};

}  // namespace pinprick::target
