// The option --silence-mcount.
#pragma once

#include "base/result.h"
#include "cli/messages/messages.h"
#include "cli/render/renderer.h"
#include "session/launch.h"

namespace pinprick::cli {

// Makes the profiling calls of the held command nops (session/profiling_calls.h), and says how many
// there were. Returns whether there are others, for which the loader has to relocate first.
Result<bool, Message> silence(const session::Launched& command, Renderer& renderer);

}  // namespace pinprick::cli
