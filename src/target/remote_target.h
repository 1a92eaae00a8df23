// A process that is attached to for moments at a time: to map memory, to write its text, to look.
//
// Between those moments nothing ties it to us: no ptrace relation, no descriptor, no thread.
// Reading and writing memory that nobody else uses (stubs before they are armed) needs no stop.
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
  // Checks all that can be checked without stopping it.
  static Result<RemoteTarget, AttachError> open(pid_t pid);

  pid_t pid() const { return pid_; }
  uint64_t start_time() const { return start_time_; }
  const std::string& command() const { return command_; }
  // Tied to the program image of now: after an exec it reads and writes nothing any more.
  const Memory& memory() const { return *memory_; }
  image::MemoryReader reader() const;

  // Has it exited? (A zombie has.)
  bool has_exited() const;
  // Readable as soon as it has.
  int exit_descriptor() const { return pidfd_->get(); }
  // A copy for us of one of its descriptors.
  Result<Fd, SystemError> copy_descriptor(int descriptor) const;
  // Has it exited, or will it? One that was killed, or is on its way out, is waited for, a second
  // at most: on that way all kinds of things fail.
  bool ends() const;
  // The same, or has it executed another program?
  bool is_over() const { return !same_image() || ends(); }
  // Is the program image still the one that was opened?
  bool same_image() const { return !memory_->is_gone(); }

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
