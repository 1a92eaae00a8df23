// Why the probes in a process cannot be known, for verbs that only look at them.
#pragma once

#include <sys/types.h>

#include <optional>

#include "cli/messages/messages.h"

namespace pinprick::cli {

// Returns nullopt if the sessions that were found are all that the process has.
std::optional<Message> why_nothing_is_known(pid_t pid);

}  // namespace pinprick::cli
