// Turns each cause of an error into a message for the user: one sentence that says what is wrong
// and what to do about it, a word for scripts, and the exit status. Pure, except that messages read
// a process's name, a foreign file's machine, and who has a damaged session file.
#pragma once

#include <string>
#include <vector>

#include "cli/exit_code.h"
#include "control/mounted_tree.h"
#include "image/elf/elf_file.h"
#include "ledger/session_error.h"
#include "session/launch.h"
#include "session/matching.h"
#include "session/measurement_error.h"
#include "session/selection.h"
#include "target/attach_error.h"

namespace pinprick::cli {

struct Message {
  std::string cause;  // a word for JSON records, such as not_permitted
  std::string text;
  ExitCode exit = kFailed;
  // Lines that show people which part of what they wrote is meant.
  std::vector<std::string> place = {};
};

Message message(const target::AttachError& error);
Message message(const ledger::FileError& error);
Message message(const ledger::SessionError& error);
// Returns why the kernel refuses to place breakpoints for us (target/kernel_uprobes.h).
std::string why_no_breakpoints(const SystemError& error);
Message message(const session::LaunchError& error);
Message message(const image::ElfError& error);
Message message(const session::SelectionError& error);
Message message(const session::MatchError& error);
Message message(const session::MeasurementError& error);
// Returns why the statistics of the process cannot be read or changed.
Message message(pid_t pid, const control::ControlError& error);
Message message(const control::MountError& error);

}  // namespace pinprick::cli
