// Hijacking a thread of the target with the journal kept.
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

// Runs `work` with a hijacked thread, while all others go on. What the thread runs on is written to
// the journal before, and marked as gone after: the tail of the last page of code of the program or
// of its loader, after the end of the code, or of the vDSO. Nobody ever executes anything there,
// and none of these can be unloaded by the others meanwhile, as a library could. A room in which
// the code of an earlier hijack still lies is not taken: a thread may be in it. Errors of `work`
// come back as they are, unless the process has ended or runs another program. `image` may be
// older.
Result<void, ledger::SessionError> with_hijacked_thread(
    const target::RemoteTarget& target, const image::ProcessImage& image, ledger::SessionFile& file,
    layout::Session& journal,
    const std::function<Result<void, ledger::SessionError>(target::HijackedThread&)>& work);

// Puts back what a dead controller's hijacked thread ran on. A thread that is still there (it has
// not run since, or stands in a group stop) is brought home first. Where a signal handler will
// return there, all stays for another time.
void undo_hijack(target::Stop& stop, const target::RemoteTarget& target, ledger::SessionFile& file,
                 layout::Session& journal);

}  // namespace pinprick::engine
