// What a controller has to do for a session while its probes are in place: provide more slots for
// calls in flight and more blocks for histograms, before they run out. All that it needs to know is
// in the process and in the session's file, so any controller can do it, not only the one that
// armed. The target is not stopped. One caller at a time for each session.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "layout/session_file.h"
#include "ledger/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

// Doubles the number of slots if more than half of them were used, and quadruples it if all were.
// The running target sees the new slots when the last word is written.
struct Provided {
  uint64_t slots = 0;  // how many there are now; 0 if unknown
  bool soon = false;   // call again soon: a quarter was used, and more slots are possible
};
Provided provide_slots(const target::Memory& memory, const layout::Session& journal);

// Marks what threads that have ended have in the session's table of threads, so that others can use
// it. Does nothing if there is no such table. The caller knows that the session is in the process:
// it holds the lock of its file, or the process's turn.
void sweep_threads(pid_t pid, const target::Memory& memory, const layout::Session& journal);
inline constexpr uint64_t kSweepPauseNs = 250'000'000;  // how often that is worth it

// The same for all statistics that were left in the process. They have all slots and blocks that
// they can have. Does nothing if the process is gone, or another controller has its turn for long.
void provide_for_kept(pid_t pid);

// A session whose controller is gone, taken over by this controller, which owns it until the
// Adopted is destroyed. The probes stay in place then, too.
class Adopted {
 public:
  // All such sessions of a process that lives, except those that another controller took first.
  // `memory` is the process's, and was opened before.
  static std::vector<Adopted> all_of(pid_t pid, const target::Memory& memory);

  const layout::Session& journal() const { return journal_; }
  // Provides slots and blocks. To be called now and then; returns true if it should be soon.
  bool provide(const target::Memory& memory);

 private:
  Adopted(ledger::SessionFile file, layout::Session journal)
      : file_(std::move(file)), journal_(std::move(journal)) {}
  ledger::SessionFile file_;
  layout::Session journal_;
  uint64_t swept_ns_ = 0;
};

}  // namespace pinprick::engine
