// Taking probes out again: from a session file alone, whether its controller is us or long dead.
//
//     1  stop; the text gets its old bytes back wherever it still holds ours
//     2  the file says `disarmed`
//     3  if no thread stands in, or will return to, our memory: the target unmaps it, the file
//     goes.
//        Otherwise both stay until a later detach finds nobody there; calls that are being measured
//        return through it meanwhile.
#pragma once

#include <string>
#include <vector>

#include "image/process.h"
#include "layout/session_file.h"
#include "session/session_error.h"
#include "session/session_file.h"
#include "target/remote_target.h"

namespace pinprick::session {

struct DisarmReport {
  size_t restored = 0;        // sites
  size_t foreign = 0;         // sites that held neither our bytes nor the old ones: left alone
  size_t gone = 0;            // sites that are not mapped any more
  uint64_t slots_in_use = 0;  // calls that have not returned
  size_t threads_inside = 0;  // threads in, or about to return to, our code
  bool memory_left = false;   // so it could not be unmapped yet
  bool target_gone = false;   // it ended, or runs another program: nothing to undo
  uint64_t stopped_ns = 0;
};

// `journal` is what `file` says; both are updated. The file is removed when nothing is left.
Result<DisarmReport, SessionError> disarm(const target::RemoteTarget& target,
                                          const image::ProcessImage& image, SessionFile& file,
                                          layout::Session& journal);

}  // namespace pinprick::session
