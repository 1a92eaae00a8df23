// Uprobes: breakpoints that the kernel keeps in a process and counts itself (Linux 6.6, root). A
// hit costs a microsecond or more, and almost any instruction can have one.
//
// The kernel has the breakpoint and the counter, so a thread that hits a uprobe needs nothing of
// ours. Uprobes vanish when their descriptors are closed, also if we die. One BPF link places many
// at once. (Perf events would have to be opened for each thread and each uprobe. An inherited perf
// event makes the kernel look for the file's name in the target's memory, where it is not, and so
// no thread could be created.)
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

// An instruction as the kernel identifies it: a file and an offset.
struct FilePosition {
  const image::Mapping* mapping = nullptr;
  uint64_t offset = 0;
};
std::optional<FilePosition> position_in_file(const std::vector<image::Mapping>& maps,
                                             Address address);

// Loads a BPF program for uprobes.
Result<Fd, SystemError> load_uprobe_program(std::span<const bpf_insn> instructions);
// Places uprobes, which last until the returned descriptor is closed. `cookies` are the values that
// the program gets for each offset, and may be empty. `semaphores` are the offsets of the 16-bit
// counts that the kernel raises meanwhile, 0: none; they may be empty. Fails with ESRCH if `pid` is
// a thread's.
Result<Fd, SystemError> link_uprobes(const Fd& program, pid_t pid, const std::string& path,
                                     std::span<const uint64_t> offsets,
                                     std::span<const uint64_t> cookies,
                                     std::span<const uint64_t> semaphores = {});

class KernelUprobes {
 public:
  struct Request {
    Address address = 0;
    Address semaphore =
        0;  // of an SDT point (image/notes/sdt_notes.h), in the same object; 0: none
  };

  // Fails, as place() would, if this kernel cannot place uprobes or does not let us.
  static Result<void, SystemError> available();
  // Places uprobes that count the hits of all threads of the process, but not of its children.
  // There must be at least one address, and the text there must be the file's. Fails with
  // EOPNOTSUPP if this kernel would count one thread only, or has no such links. See placed() for
  // the addresses that cannot have one.
  static Result<KernelUprobes, SystemError> place(pid_t pid, const Memory& memory,
                                                  std::span<const Request> wanted);

  // For each address given to place(): false if the kernel refuses a breakpoint there. It does if
  // another tool has one with another semaphore.
  const std::vector<bool>& placed() const { return placed_; }
  // Can be called after remove(), too.
  std::vector<uint64_t> hits() const;
  // Takes the uprobes out. The kernel may do so later; this waits for it, ten seconds at most.
  void remove(const Memory& memory);

 private:
  struct Site {
    uint64_t offset = 0;
    uint64_t index = 0;
    uint64_t semaphore = 0;
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
