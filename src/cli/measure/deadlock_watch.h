// Looks for deadlocks (session/lock_waits.h) while processes are measured, and tells of each once.
// One thread uses it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cli/render/renderer.h"

namespace pinprick::cli {

class DeadlockWatch {
 public:
  // The renderer must outlive this.
  explicit DeadlockWatch(Renderer& renderer) : renderer_(renderer) {}

  // Was the last look a second ago, or a hundred times as long as it has taken?
  bool is_due() const;
  // Looks at the processes, and warns of deadlocks that are new.
  void look(const std::vector<ProcessName>& processes);
  // Shows the threads that still wait for a lock, as their calls have no event, and the deadlocks
  // of processes that have ended since. To be called when the probes are out: until then, stacks
  // end where calls return to a probe.
  void show(const std::vector<ProcessName>& processes);

 private:
  using Key = std::set<std::pair<pid_t, uint64_t>>;  // threads, and what each waits for
  static Key key_of(const session::LockWaits& waits, const std::vector<size_t>& ring);
  bool confirms_known(const session::LockWaits& found) const;
  std::optional<session::LockWaits> look_at_end(const ProcessName& process) const;

  Renderer& renderer_;
  std::map<Key, session::LockWaits> known_;  // each with nothing but the deadlock
  uint64_t next_ns_ = 0;
};

}  // namespace pinprick::cli
