// Finds the session files on this machine, whichever controller made them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "image/maps.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "target/remote_target.h"

namespace pinprick::ledger {

struct FoundSession {
  SessionFile file;  // opened for reading, not locked
  layout::Session journal;
  bool controller_lives = false;
  bool target_lives = false;  // and is still the same process

  // Is it a statistic that stays in the process without a controller, until a user removes it?
  bool is_kept() const {
    return journal.header.is_kept != 0 && journal.header.state == layout::SessionState::armed;
  }
};

// The owner of a session's file decides what a detach writes into the process. So a file is trusted
// only if it belongs to root, to this user, or to the user that may write into the process by now:
// a program with more rights than its user belongs to root.
//
// That is not enough to write by it: the process has the file mapped, and could write to it if it
// tried, and may then have executed a program with more rights. Such a program has none of the
// session's memory (engine/owners/ownership.h).
bool is_trusted(const SessionFile& file, pid_t pid);
bool is_trusted_user(uid_t user, pid_t pid);

// Is this a mapping of the session file with this inode? (Not by the device, which some file
// systems tell otherwise in the maps.)
bool is_mapping_of_session(const image::Mapping& mapping, ino_t file);

// The sessions of the process, or of all processes. Files that cannot be read, make no sense or are
// not trusted are left out, and their errors are kept.
//
// Also removes this user's files that are of no more use: those of targets that ended before
// anything was armed, or after it was taken out. The results of a target that ended under probes
// stay until they are detached. Of other users' files, those that together have more than 64 MB of
// tables (of ended processes) or 1 GB (of others) are left out as untrusted, as root would run out
// of memory, and those with more areas than this machine has CPUs.
struct FoundSessions {
  std::vector<FoundSession> sessions;
  std::vector<FileError> unreadable;
};

// `except` is the path of a file that is not read: the caller's own, which may have many sites.
FoundSessions find_sessions(std::optional<pid_t> pid = std::nullopt,
                            const std::string& except = {});

// The journals of the process's sessions, as find_sessions() finds them while the process lives. No
// file stays open: a process may have more sessions than we may have open files. With maps of the
// process, only those of which it has the file mapped.
struct FoundJournals {
  std::vector<layout::Session> journals;
  std::vector<FileError> unreadable;
};
FoundJournals find_journals(pid_t pid, const std::string& except = {},
                            const std::vector<image::Mapping>* maps = nullptr);

// The sessions of other processes that this one has mapped: it was forked from them, has their
// probes, and counts in their files. Those that are not trusted, or have no name any more, are left
// out. `maps` are those of the process.
std::vector<FoundSession> find_inherited(pid_t pid, const std::vector<image::Mapping>& maps);

// Removes this user's files that no process can need any more, unless they are of statistics, of
// recorders that keep the newest events, or of another version: no process has that PID and start
// time, and no process, in any container, has the file open or mapped. So the files of killed
// controllers do not fill the folder after their targets have ended, too. The statistics that a
// program has recorded are removed in the same way once no process maps them, even if the process
// has gone on to another program.
void remove_files_of_dead();

// Returns why no session can be added to those that the process has, or nullopt if one can. Either
// the process probes itself by libpinprick and does not share its text, or it has a session
// whose sites are unknown because its file cannot be read or is of another version.
std::optional<SessionError> why_closed(pid_t pid);
// The same with the process's memory, and maps that were read just before.
std::optional<SessionError> why_closed(pid_t pid, const target::Memory& memory,
                                       const std::vector<image::Mapping>& maps);

// Returns for each of these windows of text whether probes that the program has, or had, placed
// itself, by libpinprick, are in the way of a jump there. All false if it cannot be looked into.
std::vector<bool> taken_by_program(pid_t pid, std::span<const Range> windows);
// Returns the names of the probes that the program has placed itself.
std::vector<std::string> probes_of_program(pid_t pid);

}  // namespace pinprick::ledger
