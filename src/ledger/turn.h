// Whose turn it is to change a process. Several controllers may have probes in one process, but
// only one at a time reads and changes its text: it holds the turn from before it reads the text
// until its jumps are in, or out. Nothing else waits for a turn, neither the process nor those that
// read its results.
//
// The turn is a lock (flock(2)) on a file of the process in /proc. That is the same file for all
// users, whatever folders they keep their sessions in; each process has a new one; and the kernel
// releases the lock when its holder ends. The file is `personality`: only root and the process's
// own user can open it, so no other user can keep the turn, and it is there for as long as any
// thread is. (`mem` is not, once the first thread has ended.)
//
// Each mount of /proc has a file of its own, as in a container that was entered by another one. So
// the process's pidfd is locked as well, which is the same file for all since Linux 6.9. Any user
// can lock that one, so a controller waits for it in vain once, for two seconds, and goes on
// without it. Before 6.9, controllers in different mounts of /proc are not kept apart.
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
  // For a detach: giving up would leave its probes in the process.
  static constexpr uint64_t kLongTimeoutNs = 300'000'000'000;
  // Waits for the turn, and settles threads (target/stop.h) meanwhile. The turn lasts until the
  // Turn and its copies are destroyed. Any thread may call it. A controller that has the turn
  // already gets the same one again. Succeeds at once if the process is gone. Fails with Busy if
  // another controller keeps the turn for `timeout_ns`; for a second, if we hold a thread of the
  // process meanwhile and it is no detach.
  static Result<Turn, SessionError> take(pid_t pid, uint64_t timeout_ns = kTimeoutNs);
  // From now on this controller waits in vain for no longer than that, for all turns together, but
  // to detach; then, 20 ms for each. What it has waited is forgotten in sixteen times as long. For
  // one that looks after the processes of many users: each of them may keep the turns of its own.
  static void limit_waiting(uint64_t total_ns);
  // A number for the turn that this controller has, which no other turn has had; 0: it has none.
  static uint64_t number_of(pid_t pid);

 private:
  struct Held {
    Fd file;
    Fd pidfd;  // empty: not locked
    uint64_t number = 0;
  };
  explicit Turn(std::shared_ptr<const Held> held) : held_(std::move(held)) {}
  // Those of this process, by target and controller: a forked child inherits them, but is another
  // controller.
  struct All;
  static All& all();

  std::shared_ptr<const Held> held_;
};

}  // namespace pinprick::ledger
