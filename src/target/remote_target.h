// A process that we attach to for moments at a time: to map memory, to write its text, to look.
//
// Between those moments it has no ptrace relation to us, no descriptor and no thread of ours.
// Memory that the program does not use (stubs before they are armed) is read and written without a
// stop. Copies are cheap, and any thread may use them.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "image/process.h"
#include "target/attach_error.h"
#include "target/memory.h"
#include "target/procfs.h"
#include "target/stop.h"

namespace pinprick::target {

class RemoteTarget {
 public:
  // Opens a process. Fails if it cannot be attached to, as far as that can be checked without
  // stopping it.
  static Result<RemoteTarget, AttachError> open(pid_t pid);

  pid_t pid() const { return pid_; }
  uint64_t start_time() const { return start_time_; }
  const std::string& command() const { return command_; }
  // Tied to the program that ran when this was opened: after an exec it reads and writes nothing.
  const Memory& memory() const { return *memory_; }
  image::MemoryReader reader() const;

  // Has it exited? (A zombie has.)
  bool has_exited() const;
  // Becomes readable when the process exits.
  int exit_descriptor() const { return pidfd_->get(); }
  // Returns our own copy of one of its descriptors.
  Result<Fd, SystemError> copy_descriptor(int descriptor) const;
  // Has it exited, or is it exiting? Waits for a process that was killed or is exiting, a second at
  // most. To be asked after an error: anything may fail in a process that is exiting.
  bool ends() const;
  // Does it end, or has it executed another program?
  bool is_over() const { return !same_image() || ends(); }
  // Does it still run the program that it ran when this was opened?
  bool same_image() const { return !memory_->is_gone(); }
  // Of a target that is over: has it executed another program, and not ended?
  bool runs_another() const { return !has_exited() && has_memory(pid_); }
  // Of a target without same_image(): what has become of it.
  AttachCause why_gone() const {
    return runs_another() ? AttachCause::exec_during_attach : AttachCause::exited;
  }

 private:
  RemoteTarget() = default;

  pid_t pid_ = 0;
  uint64_t start_time_ = 0;
  std::string command_;
  // Shared with readers and copies.
  std::shared_ptr<const Memory> memory_;
  std::shared_ptr<const Fd> pidfd_;
};

}  // namespace pinprick::target
