// Takes probes out again. It needs only the session file and the process: the controller that armed
// may be this one, or long dead.
//
//     1  stop; semaphores of SDT points are lowered; the text gets its old bytes back wherever it
//        still holds ours. Threads at a trampoline are moved on to the stub; a trampoline that a
//        thread will return to stays
//     2  the file says `disarmed`, once all of the text is restored
//     3  threads in a stub are redirected to the original code; calls in flight, which would
//        return through a slot, get their own return address back
//     4  if no thread is left inside: the threads go on, a hijacked one unmaps our memory, and the
//        file is removed. Code that a thread may still reach later stays, as memory that needs
//        nothing else of ours (kept_memory.h). If a thread is inside, all memory stays until a
//        later detach finds no thread there.
//     5  the same with each process that was forked from this one since, and has the probes
//        (forked_session.h)
#pragma once

#include <string>
#include <vector>

#include "engine/calls/slot_use.h"
#include "image/process.h"
#include "layout/session_file.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "target/remote_target.h"

namespace pinprick::engine {

struct DisarmReport {
  size_t restored = 0;  // sites
  // Sites that were overwritten by others: they hold neither our bytes nor the old ones, and are
  // left alone; or they hold the old ones already, put back by others.
  size_t foreign = 0;
  // Those foreign sites whose bytes may lead to our stubs (our jump, moved, or under a debugger's
  // breakpoint). The stubs stay, and the session stays armed, until these sites hold known bytes.
  size_t foreign_held = 0;
  size_t gone = 0;            // sites that are not mapped any more
  size_t released = 0;        // calls in flight, which are not measured
  size_t threads_inside = 0;  // threads in, or about to return to, our code
  // Measured calls that never returned: abandoned by longjmp, or made on a stack that was since
  // moved elsewhere. The two cannot be told apart, so the slots that they would return through
  // stay. Calls that were timed by exits have none.
  size_t calls_abandoned = 0;
  size_t calls_ended = 0;        // the same, but their threads have ended, and so nothing stays
  uint64_t kept_slot_bytes = 0;  // that the abandoned calls would return through
  uint64_t kept_stub_bytes = 0;  // whose address generated code may have
  NeverReturned never_returned;  // empty if unknown, and in a sum
  bool is_filtered = false;      // a seccomp filter, or user dispatch, now forbids unmapping
  bool memory_left = false;      // our memory could not be unmapped yet
  bool hooks_left = false;       // jumps of hooks are still in the text: no probes
  bool target_gone = false;      // it ended, or runs another program: nothing to undo
  bool replaced = false;         // of these, the latter
  uint64_t stopped_ns = 0;
  // Processes that were forked from this one and had the probes: out of how many of them they were
  // taken, too, and in how many they had to stay.
  size_t forked = 0;
  size_t forked_left = 0;

  // Adds another session's report, for a process with several.
  DisarmReport& operator+=(const DisarmReport& other);
};

// How long threads may run until they have left our code.
inline constexpr uint64_t kDisarmTimeoutNs = 1'000'000'000;

// A controller that died may have armed some of the sites only.
enum class Armed : uint8_t { perhaps_partly, completely };

// Takes the probes of one session out. `journal` is what `file` says; both are updated. The file is
// removed when nothing of the session is left in the process. Takes the process's turn. Fails if
// the turn is not to be had, or the process cannot be stopped or written; a later call can go on
// from there.
Result<DisarmReport, ledger::SessionError> disarm(const target::RemoteTarget& target,
                                                  const image::ProcessImage& image,
                                                  ledger::SessionFile& file,
                                                  layout::Session& journal,
                                                  uint64_t timeout_ns = kDisarmTimeoutNs,
                                                  Armed armed = Armed::perhaps_partly);

}  // namespace pinprick::engine
