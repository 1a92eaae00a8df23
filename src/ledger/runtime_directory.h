// Where session files live: in a folder of the user's own on a tmpfs. There they need no disk, they
// survive the controller, and they vanish at a reboot.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace pinprick::ledger {

// Returns the first of these that is, or can be made, a folder of this user's with mode 0700 on a
// tmpfs: $XDG_RUNTIME_DIR/pinprick, /run/pinprick (root), /run/user/UID/pinprick,
// /dev/shm/pinprick-UID, /tmp/pinprick-UID. Without any, the first, or one of the last two, on
// another file system. If another user has made a folder of that name in /dev/shm or /tmp, its name
// ends with -XXXXXX, any six characters.
Result<std::string, SystemError> runtime_directory();

// Returns the folders in which all of the following look for files, whether they are there or not.
// None may be served by the program that looks: it would wait for itself.
std::vector<std::string> searched_folders();

// Returns the paths of the session files of all users whose folders can be read; with `pid`, only
// those whose names begin with it. While this controller has the process's turn (turn.h), the
// folders are read once: no other controller can begin a session in it, or end one.
std::vector<std::string> find_session_files(std::optional<pid_t> pid);
// To be called in the process's turn when it has executed a program that no tool can have attached
// to yet: the folders need not be read then. What an earlier program of it has left stays for
// later.
void note_no_session_files(pid_t pid);
// To be called when this controller has made a session's file, or removed one.
void note_session_file(const std::string& path);
void forget_session_file(const std::string& path);
// The same for the files of statistics that programs record (layout/recorded_file.h).
std::vector<std::string> find_recorded_files(std::optional<pid_t> pid);

// The name of a session's file. The PID and the start time identify the process for good. The
// number tells a session whose memory is still in the target from the next one.
std::string session_file_name(pid_t pid, uint64_t start_time, unsigned number);
// The process in the name of a session's file, or of recorded statistics; nullopt if `path` is no
// such name.
struct NamedProcess {
  pid_t pid = 0;
  uint64_t start_time = 0;
};
std::optional<NamedProcess> process_named(const std::string& path);
// Is `path` the name of a session's file of this process?
bool names_process(const std::string& path, pid_t pid, uint64_t start_time);

}  // namespace pinprick::ledger
