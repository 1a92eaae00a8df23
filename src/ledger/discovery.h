// The sessions on this machine, whoever began them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "target/remote_target.h"

namespace pinprick::ledger {

struct FoundSession {
  SessionFile file;  // opened for reading, not locked
  layout::Session journal;
  bool controller_lives = false;
  bool target_lives = false;  // and is still the same process
};

// Who may write a session's file says what is written into the process. So of a process that lives
// only root, we, and whoever owns the process now are believed.
bool is_trusted(const SessionFile& file, pid_t pid);

// Removes those of ours that have nothing more to say: of targets that ended before anything was
// armed, or after it was taken out. The results of a target that ended under probes stay until they
// are detached. Files that cannot be read or make no sense are left out, and their errors kept.
struct FoundSessions {
  std::vector<FoundSession> sessions;
  std::vector<FileError> unreadable;
};

FoundSessions find_sessions(std::optional<pid_t> pid = std::nullopt);

// Removes files of ours that nobody can need any more, whatever is in them: there is no process of
// that PID and start time, and nobody, in whatever container, has the file open or mapped. So what
// a controller that was killed has left does not fill the folder when its target is gone as well.
void remove_files_of_dead();

// Why no session can be added to those that the process has: it probes itself by libpinprick, or
// has a session whose file cannot be read or is of another version, so that nobody knows its sites.
std::optional<SessionError> why_closed(pid_t pid);

}  // namespace pinprick::ledger
