// Why a session could not be had.
#pragma once

#include <variant>

#include "base/fd.h"
#include "session/session_file.h"
#include "target/attach_error.h"

namespace pinprick::session {

// Another pinprick's probes are in the process.
struct Occupied {
  pid_t pid = 0;
  pid_t controller = 0;  // 0: it is gone, and its probes are orphaned
  size_t probes = 0;
};

// No folder for session files.
struct NoRuntimeDirectory {
  int system_error = 0;
};

using SessionError = std::variant<target::AttachError, FileError, Occupied, NoRuntimeDirectory>;

}  // namespace pinprick::session
