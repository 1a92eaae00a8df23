// Whose turn it is to change a process. Several controllers may have probes in one process; one at
// a time looks at its text and changes it, from before it reads the text to when its jumps are in,
// or out. Nothing else waits for a turn: not the process, nor who reads what was recorded.
//
// A lock (flock(2)) on the process's folder in /proc: it is one file for all users and whatever
// folders they keep their sessions in, there is a new one for each process, and the kernel lets go
// when the holder ends. Where controllers see the process in different mounts of /proc the lock
// does not keep them apart; then the kernel does, which lets only one stop the process at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "ledger/session_error.h"

namespace pinprick::ledger {

class Turn {
 public:
  static constexpr uint64_t kTimeoutNs = 30'000'000'000;
  // Of who would leave its probes behind.
  static constexpr uint64_t kLongTimeoutNs = 300'000'000'000;
  // Waits for it. Taken again by the same controller it is the same turn. Of a process that is gone
  // there is nothing to wait for. Fails with Busy if another one has it for that long.
  static Result<Turn, SessionError> take(pid_t pid, uint64_t timeout_ns = kTimeoutNs);

 private:
  explicit Turn(std::shared_ptr<const Fd> folder) : folder_(std::move(folder)) {}
  std::shared_ptr<const Fd> folder_;
};

}  // namespace pinprick::ledger
