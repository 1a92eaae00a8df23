// pinprick locks: measures as `trace` does, and shows who takes and awaits which locks; or looks
// once at who waits for whom.
#include <cerrno>

#include "cli/exit_code.h"
#include "cli/measure/lock_patterns.h"
#include "cli/messages/messages.h"
#include "cli/object_store.h"
#include "cli/verbs/verbs.h"
#include "session/lock_waits.h"
#include "target/procfs.h"

namespace pinprick::cli {

// Returns the exit status.
static int show_waits(pid_t pid, Renderer& renderer) {
  const auto status = target::read_status(pid);
  const auto waits = status ? session::lock_waits({pid, status->command}, object_store())
                            : Result<session::LockWaits, SystemError>(fail(SystemError{ESRCH}));
  if (!waits) {
    const bool is_gone = !status || waits.error().number == ESRCH;
    const auto cause =
        is_gone ? target::AttachCause::no_such_process : target::AttachCause::not_permitted;
    const Message why = message(target::AttachError{cause, pid, 0, waits.error().number, {}});
    renderer.error(why);
    return why.exit;
  }
  renderer.lock_waits(*waits);
  return waits->deadlocks.empty() ? kOk : kFailed;
}

static int run_now(const Options& options, Renderer& renderer) {
  int exit = kOk;
  for (const pid_t pid : options.pids)
    if (const int own = show_waits(pid, renderer); exit == kOk) exit = own;
  renderer.flush();
  return exit;
}

// Locks of forked children are others, at the same addresses.
int run_locks(const Options& options, Renderer& renderer) {
  if (options.now) return run_now(options, renderer);
  auto patterns = lock_patterns(options);
  if (!patterns) return give_up(renderer, patterns.error());
  Options own = options;
  own.patterns = *std::move(patterns);
  own.count_children = false;
  // Not every C library has all functions of the family.
  if (own.lockers.empty()) own.allow_missing = true;
  own.stack_frames = 0;  // releases need no stack
  return run_watch(own, renderer);
}

}  // namespace pinprick::cli
