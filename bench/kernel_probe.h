// The kernel's own probes of functions in one process: a uprobe or uretprobe through
// perf_event_open, or many uprobes at once through a BPF link. They vanish when their descriptor is
// closed, also if we are killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"
#include "cli/messages/messages.h"

namespace pinprick::bench {

enum class KernelProbeKind : uint8_t { entry, at_return };

class KernelProbe {
 public:
  // Places one at an instruction of a file that `pid` maps. All threads of the process hit it, but
  // only the main thread's hits are counted: if new threads inherited such an event, the kernel
  // would read the file's name from the target's memory, where it is not, and their creation would
  // fail.
  static Result<KernelProbe, cli::Message> place(pid_t pid, Address address, KernelProbeKind kind);
  // Counts an instruction of a file, in all processes.
  static Result<KernelProbe, cli::Message> position_in_file(const std::string& path,
                                                            uint64_t offset);

  Result<uint64_t, cli::Message> hits() const;

 private:
  KernelProbe() = default;
  std::vector<Fd> events_;  // one, or one for each CPU
};

// The kernel's fastest way for many probes (6.6 and later): one link, to a program that does
// nothing.
class KernelProbeBatch {
 public:
  // Loads the program, and finds the functions' offsets in their file.
  static Result<KernelProbeBatch, cli::Message> prepare(pid_t pid,
                                                        const std::vector<Address>& addresses);
  Result<void, cli::Message> place();
  void remove() { link_ = Fd(); }

 private:
  KernelProbeBatch() = default;

  pid_t pid_ = 0;
  std::string path_;
  std::vector<uint64_t> offsets_;
  Fd program_;
  Fd link_;
};

}  // namespace pinprick::bench
