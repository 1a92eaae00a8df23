// Remote system calls on a hijacked thread of the target, recorded in the journal, so that a later
// controller can undo the hijack if this one dies.
#pragma once

#include <functional>
#include <vector>

#include "image/process.h"
#include "layout/session_file.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "target/hijacked_thread.h"
#include "target/remote_target.h"
#include "target/stop.h"

namespace pinprick::engine {

// Runs `work` with a hijacked thread, while all other threads go on. The thread runs code in the
// unused tail of the last code page of the program, of its loader or of the vDSO. No other thread
// executes anything there, and none of these can be unloaded meanwhile, as a library could. The
// journal names these bytes before they are written, until they are restored. Bytes that still
// hold the code of an earlier hijack are not used: a thread may be in it.
//
// With `all`, no thread goes on meanwhile: all are stopped, and `all` decides whether one of them
// is hijacked.
//
// Fails if there are no such bytes or no thread can be hijacked. Errors of `work` and `all` are
// returned as they are, unless the process has ended or runs another program. `image` may be
// outdated.
Result<void, ledger::SessionError> with_hijacked_thread(
    const target::RemoteTarget& target, const image::ProcessImage& image, ledger::SessionFile& file,
    layout::Session& journal,
    const std::function<Result<void, ledger::SessionError>(target::HijackedThread&)>& work,
    const std::function<Result<void, ledger::SessionError>(target::Stop&)>& all = {});

// Restores the bytes on which a dead controller's hijacked thread ran. A thread that is still there
// (it has not run since, or is in a group stop) gets its own registers back first. If a signal
// handler will return there, everything stays for a later attempt.
void undo_hijack(target::Stop& stop, const target::RemoteTarget& target, ledger::SessionFile& file,
                 layout::Session& journal);

}  // namespace pinprick::engine
