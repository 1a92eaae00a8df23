#include "cli/silence.h"

#include "cli/object_store.h"
#include "session/profiling_calls.h"

namespace pinprick::cli {

Result<bool, Message> silence(const session::Launched& command, Renderer& renderer) {
  const auto silenced = session::silence_profiling_calls(command, object_store());
  if (!silenced) return fail(message(silenced.error()));
  if (silenced->calls != 0 || !silenced->waits) renderer.silenced(silenced->calls);
  return silenced->waits;
}

}  // namespace pinprick::cli
