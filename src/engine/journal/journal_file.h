// The session file of a session that is about to be armed: the header that says whose it is, and
// the file itself.
//
// Arming calls it, with the process's turn held, before anything of the session is in the process.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "image/maps.h"
#include "layout/session_file.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "target/remote_target.h"

namespace pinprick::engine {

// To measure it well takes 10 ms; counts and values are no times, and the loader's timeout need not
// be exact.
enum class Clock : uint8_t { rough, measured };

// A header with room for what is counted, of a session that this process begins now.
layout::FileHeader session_header(const layout::SessionCounts& counts,
                                  const target::RemoteTarget& target, Clock clock);

// A file that no other session has, locked. Fails if the process is not open to us, or the folder
// has no space. `maps` are those of the process, read just before.
Result<ledger::SessionFile, ledger::SessionError> create_session_file(
    const std::string& folder, const target::RemoteTarget& target,
    const std::vector<image::Mapping>& maps, const layout::Session& journal);

}  // namespace pinprick::engine
