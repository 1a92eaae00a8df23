#include "session/registry.h"

#include "base/machine.h"
#include "session/runtime_directory.h"
#include "target/procfs.h"

namespace pinprick::session {
namespace {

bool is_same_process(const layout::FileHeader& header) {
  if (std::string_view(header.boot_id, sizeof header.boot_id).substr(0, 31) !=
      std::string_view(boot_id()).substr(0, 31))
    return false;
  const auto status = target::read_status(header.pid);
  return status && status->start_time == header.start_time && status->state != 'Z' &&
         status->state != 'X';
}

}  // namespace

FoundSessions find_sessions(std::optional<pid_t> pid) {
  FoundSessions found;
  for (const std::string& path : find_session_files(pid)) {
    auto file = SessionFile::open(path, SessionFile::Lock::none);
    if (!file) {
      found.unreadable.push_back(file.error());
      continue;
    }
    const bool locked = file->is_locked();
    auto journal = file->read();
    if (!journal) {
      found.unreadable.push_back(journal.error());
      continue;
    }
    const bool lives = is_same_process(journal->header);
    if (!lives && !locked && journal->header.state != layout::SessionState::armed) {
      file->remove();
      continue;
    }
    found.sessions.push_back({*std::move(file), *std::move(journal), locked, lives});
  }
  return found;
}

std::optional<Occupied> occupant(pid_t pid) {
  for (const FoundSession& session : find_sessions(pid).sessions) {
    const auto& header = session.journal.header;
    if (!session.target_lives) continue;
    if (session.controller_lives)
      return Occupied{pid, header.controller, session.journal.probes.size()};
    if (header.state != layout::SessionState::disarmed)
      return Occupied{pid, 0, session.journal.probes.size()};
  }
  return std::nullopt;
}

}  // namespace pinprick::session
