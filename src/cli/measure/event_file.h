// Reads files with lines of the kernel's tracing (select/event_lines.h): `trace --event-file`.
//
// Reads the file, or the standard input, and the headers of the programs and libraries that lines
// have offsets in.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/messages/messages.h"

namespace pinprick::cli {

// Appends what the lines say, as our own language has it. `-` is the standard input.
Result<void, Message> append_event_lines(const std::string& path, std::vector<std::string>& specs);

}  // namespace pinprick::cli
