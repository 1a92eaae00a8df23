// Takes out what owners have left in a process: probes whose controller is gone, and memory that a
// controller had to leave there because a thread was still in it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/disarm.h"
#include "image/maps.h"
#include "image/process.h"
#include "ledger/discovery.h"
#include "ledger/session_error.h"
#include "target/memory.h"

namespace pinprick::session {

// Takes out what such a session has in its process, waiting for threads to leave its memory for
// `timeout_ns` at most. If the process is gone, only removes the session file. Fails if a
// controller still holds the file, the file is not trusted, or the process cannot be changed.
Result<engine::DisarmReport, ledger::SessionError> take_out_left_over(
    const ledger::FoundSession& found, image::ObjectStore& store,
    uint64_t timeout_ns = engine::kDisarmTimeoutNs);

// Tells which sessions of a process are of the program that it runs: after it has executed another
// one, files of the old one remain. Looks at the process once.
class PresentProgram {
 public:
  explicit PresentProgram(pid_t pid);
  // Returns true if it is not known.
  bool has(const ledger::FoundSession& found) const;

 private:
  Result<target::Memory, SystemError> memory_;
  Result<std::vector<image::Mapping>, SystemError> maps_;
};

// Returns whether it is a statistic that was left in the process on purpose (statistics.h), and is
// still there: the process may have executed another program.
bool is_statistic_in_place(const ledger::FoundSession& found);

// Takes out all that can be taken out of the process without waiting, except such statistics, and
// recorders whose newest events were not told yet (left_events.h), which it returns. The next owner
// tries the rest again.
std::vector<pid_t> take_out_left_overs(pid_t pid, image::ObjectStore& store);

}  // namespace pinprick::session
