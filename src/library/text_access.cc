#include "library/text_access.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include "library/error.h"
#include "patch/text_owner.h"
#include "runtime/traps.h"

namespace pinprick::library {
namespace {

// Looks repeatedly, at short intervals. A thread may block all signals for a moment, as libc does
// while it creates one; in a program that creates threads all the time, there is nearly always one.
std::optional<target::TrapObstacle> lasting_obstacle() {
  constexpr int kLooks = 3000;
  constexpr timespec kPause = {0, 200'000};
  std::optional<target::TrapObstacle> obstacle;
  for (int i = 0; i < kLooks; ++i) {
    obstacle = target::trap_obstacle();
    if (obstacle != target::TrapObstacle::blocked) break;
    ::nanosleep(&kPause, nullptr);
  }
  return obstacle;
}

Error attached_error(const patch::AttachedSession& session) {
  const pid_t controller = session.controller;
  return error_of(Cause::attached, {},
                  controller == 0 ? "pinprick" : fmt::format("pinprick {}", controller));
}

}  // namespace

Result<void, Error> not_attached() {
  const auto memory = target::Memory::open(::getpid());
  if (!memory) return fail(system_error(memory.error()));
  const auto session = patch::session_in_own_text(*memory);
  if (!session) return fail(system_error(session.error()));
  if (*session) return fail(attached_error(**session));
  return {};
}

Result<void, Error> claim_text(const target::SelfTarget& self) {
  const auto session = patch::claim_own_text(self.memory());
  if (!session) return fail(system_error(session.error()));
  if (*session) return fail(attached_error(**session));
  return {};
}

Result<void, Error> ready_for_breakpoints() {
  if (const auto obstacle = lasting_obstacle())
    return fail(error_of(
        *obstacle == target::TrapObstacle::tracer ? Cause::debugger : Cause::signal_blocked, {}));
  if (auto taken = runtime::take_trap_signal(); !taken) return fail(system_error(taken.error()));
  return {};
}

}  // namespace pinprick::library
