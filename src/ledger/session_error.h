// Why a session could not be made, or opened.
#pragma once

#include <variant>

#include "base/fd.h"
#include "image/elf/elf_file.h"
#include "ledger/session_file.h"
#include "target/attach_error.h"

namespace pinprick::ledger {

// Another controller's probes are in the process, and nothing is known of them, since its session
// file is another user's, or gone.
struct Occupied {
  pid_t pid = 0;
  pid_t controller = 0;
};

// Another controller is changing the process, and did not finish in time.
struct Busy {
  pid_t pid = 0;
};

// There is no folder for session files.
struct NoRuntimeDirectory {
  int system_error = 0;
};

// With image::ElfError no object of the process can be read.
using SessionError = std::variant<target::AttachError, FileError, Occupied, Busy,
                                  NoRuntimeDirectory, image::ElfError>;

}  // namespace pinprick::ledger
