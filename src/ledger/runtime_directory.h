// Where session files live: a folder of the user's own on a tmpfs, so that they need no disk,
// survive the controller, and go away with the machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace pinprick::ledger {

// The first of these that is, or can be made, a folder of ours with mode 0700 on a tmpfs:
// $XDG_RUNTIME_DIR/pinprick, /run/pinprick (root), /run/user/UID/pinprick, /dev/shm/pinprick-UID;
// where there is no tmpfs, the last one on whatever there is.
Result<std::string, SystemError> runtime_directory();

// Session files of all users whose folders can be read; of one process by its name.
std::vector<std::string> find_session_files(std::optional<pid_t> pid);

// A name for a session of the process; PID and start time name that for good. The number sets apart
// one whose memory is still in the target from the next.
std::string session_file_name(pid_t pid, uint64_t start_time, unsigned number);
// Whose name it is, if it is one.
struct NamedProcess {
  pid_t pid = 0;
  uint64_t start_time = 0;
};
std::optional<NamedProcess> process_named(const std::string& path);
// Is it such a name?
bool names_process(const std::string& path, pid_t pid, uint64_t start_time);

}  // namespace pinprick::ledger
