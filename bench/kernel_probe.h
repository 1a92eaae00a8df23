// The kernel's own probe of a function in one process: a uprobe or uretprobe, through
// perf_event_open alone. Gone when its descriptor is closed, whoever closes it.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"
#include "cli/messages.h"

namespace pinprick::bench {

enum class KernelProbeKind : uint8_t { entry, at_return };

class KernelProbe {
 public:
  // At an instruction of a file that `pid` maps. All threads of the process run into it, and only
  // its main thread's hits are counted: an event of this kind that new threads inherit makes the
  // kernel read the file's name from the target's memory, where it is not, and their creation fail.
  static Result<KernelProbe, cli::Message> place(pid_t pid, Address address, KernelProbeKind kind);

  Result<uint64_t, cli::Message> hits() const;

 private:
  explicit KernelProbe(Fd event) : event_(std::move(event)) {}
  Fd event_;
};

}  // namespace pinprick::bench
