// One sentence for every cause: what is wrong, and what to do about it.
#pragma once

#include <string>

#include "cli/exit_code.h"
#include "image/elf_file.h"
#include "image/pattern.h"
#include "ledger/session_error.h"
#include "select/span.h"
#include "select/value.h"
#include "session/launch.h"
#include "target/attach_error.h"

namespace pinprick::cli {

struct Message {
  std::string cause;  // machine-readable, for JSON: not_permitted
  std::string text;
  ExitCode exit = kFailed;
};

Message message(const target::AttachError& error);
Message message(const ledger::FileError& error);
Message message(const ledger::SessionError& error);
// Why the kernel keeps no breakpoints for us (target/kernel_uprobes.h).
std::string why_no_breakpoints(const SystemError& error);
Message message(const session::LaunchError& error);
Message message(const image::ElfError& error);
Message message(const image::PatternError& error);
// Of what is to be recorded at `point`.
Message message(const select::ValueError& error, const std::string& point);
Message message(select::SpanError error, const std::string& span);

}  // namespace pinprick::cli
