// Why a session could not be had.
#pragma once

#include <variant>

#include "base/fd.h"
#include "image/elf_file.h"
#include "ledger/session_file.h"
#include "target/attach_error.h"

namespace pinprick::ledger {

// Another pinprick's probes are in the process, and nothing can be known of them: its session file
// is another user's, or gone.
struct Occupied {
  pid_t pid = 0;
  pid_t controller = 0;
};

// Another pinprick is changing the process, and was not done in time.
struct Busy {
  pid_t pid = 0;
};

// No folder for session files.
struct NoRuntimeDirectory {
  int system_error = 0;
};

// An image::ElfError: no object of the process can be read.
using SessionError = std::variant<target::AttachError, FileError, Occupied, Busy,
                                  NoRuntimeDirectory, image::ElfError>;

}  // namespace pinprick::ledger
