// A forked child has its parent's probes, as it has a copy of its memory, and counts in its
// parent's session file. This gives it a session of its own: a file with the same contents, but its
// own counters, takes the place of its parent's file in its memory. Its text and its stubs stay as
// they are, so no hit is lost, and none counts twice. From then on it is a process with a session
// like any other: with its figures, in what `status` shows, and to be detached from.
//
//     1  a file for the child: its parent's tables, the counters 0
//     2  a thread of the child is hijacked, and maps it where its parent's file is (MAP_FIXED)
//
// *Why every thread is safe.* All threads are stopped while the file is replaced. A hit of a
// counting probe changes one cell, by one instruction, or by a restartable sequence, which begins
// again if its thread was stopped. What a timed call or a value is recorded by takes several
// instructions: if a thread is in our code then, or in a signal handler that returns there,
// fork_session() fails with Busy, and can be called again. Calls that were begun before are
// recorded in the child's file. If only hits are counted and a thread hangs in the kernel, the
// others go on: one that is within its sequence finds its page missing, waits for the kernel's
// lock, and begins again.
//
// *If we die* before 2, the child's file names text and stubs that are there, so a detach takes
// them out; the parent's file stays mapped, and is touched by nothing.
//
// Takes the child's turn.
#pragma once

#include "engine/disarm.h"
#include "image/process.h"
#include "layout/session_file.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "target/remote_target.h"

namespace pinprick::engine {

struct ForkedSession {
  ledger::SessionFile file;
  layout::Session journal;
};

// `journal` and `file` are those of its parent's session, which the child has mapped. `image` is
// that of the parent, or of the child.
Result<ForkedSession, ledger::SessionError> fork_session(const target::RemoteTarget& child,
                                                         const image::ProcessImage& image,
                                                         const layout::Session& journal,
                                                         const ledger::SessionFile& file);

// Has the process this session's file mapped?
bool has_session(pid_t pid, const ledger::SessionFile& file);
// Returns all processes that have it mapped in a memory of their own, so no child of vfork; empty
// if it has no other users. Leaves out those that the file's owner has no say in
// (ledger::is_trusted): any process can map a file that it was given, and what the file says would
// be written into its text.
std::vector<pid_t> processes_with(const ledger::SessionFile& file);

// Takes the session's probes out of all processes that have them since a fork. The process of the
// session has none any more, or has ended. `image` may be null if it is not known. Adds to the
// report what came of it.
void take_out_of_forked(const ledger::SessionFile& file, const layout::Session& journal,
                        const image::ProcessImage* image, uint64_t timeout_ns,
                        DisarmReport& report);

}  // namespace pinprick::engine
