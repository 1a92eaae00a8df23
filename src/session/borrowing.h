// Borrowing a thread of the target with the journal kept.
#pragma once

#include <functional>
#include <vector>

#include "image/process.h"
#include "layout/session_file.h"
#include "session/session_error.h"
#include "session/session_file.h"
#include "target/borrowed_thread.h"
#include "target/remote_target.h"
#include "target/stop.h"

namespace pinprick::session {

// Runs `work` with a borrowed thread. What the thread runs on (the tail of some object's last page
// of code, behind the end of the code, or of the vDSO) is written to the journal before, and marked
// as gone after. Errors of `work` come back as they are, unless the process has ended. `image` may
// be older than the stop: nobody runs where objects were that are gone.
Result<void, SessionError> with_borrowed_thread(
    target::Stop& stop, const target::RemoteTarget& target, const image::ProcessImage& image,
    SessionFile& file, layout::Session& journal,
    const std::function<Result<void, SessionError>(target::BorrowedThread&)>& work);

// Puts back what a dead controller's borrowed thread ran on. A thread that is still there (it has
// not run since, or stands in a group stop) is brought home first.
void repay_loan(target::Stop& stop, const target::RemoteTarget& target, SessionFile& file,
                layout::Session& journal);

}  // namespace pinprick::session
