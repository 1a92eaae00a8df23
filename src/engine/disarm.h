// Taking probes out again: from a session file alone, whether its controller is us or long dead.
//
//     1  stop; the text gets its old bytes back wherever it still holds ours. Threads at a
//        trampoline are moved on to the stub; a trampoline that somebody will return to stays
//     2  the file says `disarmed`, once nothing had to stay
//     3  threads that stand in a stub are brought back to the text; calls in flight, which would
//        return through a slot, get their own return address back
//     4  when nobody is left inside: all run again, one of them unmaps our memory, and the file
//     goes. What somebody
//        may come to later stays, as memory that needs nothing else of ours (kept_memory.h).
//        Otherwise all stays until a later detach finds nobody there.
#pragma once

#include <string>
#include <vector>

#include "image/process.h"
#include "layout/session_file.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "target/remote_target.h"

namespace pinprick::engine {

struct DisarmReport {
  size_t restored = 0;  // sites
  // Sites that somebody has overwritten: they hold neither our bytes nor the old ones, and are left
  // alone; or the old ones already, given back by others while we were there.
  size_t foreign = 0;
  // Of them: with bytes that may lead to our stubs (a jump of ours that was moved, or one under a
  // debugger's breakpoint). So these stay, and the session armed, until the sites hold something
  // that we know.
  size_t foreign_held = 0;
  size_t gone = 0;            // sites that are not mapped any more
  size_t released = 0;        // calls in flight that got their own return address back
  size_t threads_inside = 0;  // threads in, or about to return to, our code
  // Measured calls that never returned: left by longjmp, or on a stack that was moved to where we
  // do not see it. Since nobody can tell, what they would return through stays.
  size_t calls_abandoned = 0;
  uint64_t kept_slot_bytes = 0;     // that these calls would return through
  uint64_t kept_stub_bytes = 0;     // that generated code may have the address of
  std::vector<uint64_t> abandoned;  // of them, by histogram; empty: nobody could look, or of a sum
  bool is_filtered = false;         // a seccomp filter that it has by now forbids to unmap
  bool memory_left = false;         // so it could not be unmapped yet
  bool target_gone = false;         // it ended, or runs another program: nothing to undo
  uint64_t stopped_ns = 0;

  // Of several sessions of one process.
  DisarmReport& operator+=(const DisarmReport& other);
};

// How long threads may run until they have left what they are in the middle of.
inline constexpr uint64_t kDisarmTimeoutNs = 1'000'000'000;

// Of a controller that has died nobody knows how far it came.
enum class Armed : uint8_t { perhaps_partly, completely };

// `journal` is what `file` says; both are updated. The file is removed when nothing is left.
Result<DisarmReport, ledger::SessionError> disarm(const target::RemoteTarget& target,
                                                  const image::ProcessImage& image,
                                                  ledger::SessionFile& file,
                                                  layout::Session& journal,
                                                  uint64_t timeout_ns = kDisarmTimeoutNs,
                                                  Armed armed = Armed::perhaps_partly);

}  // namespace pinprick::engine
