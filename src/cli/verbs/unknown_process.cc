#include "cli/verbs/unknown_process.h"

#include <variant>

#include "ledger/discovery.h"
#include "target/attach_error.h"
#include "target/memory.h"
#include "target/procfs.h"

namespace pinprick::cli {

std::optional<Message> why_nothing_is_known(pid_t pid) {
  const auto status = target::read_status(pid);
  const auto failed = [&](target::AttachCause cause) {
    return message(target::AttachError{cause, pid, 0, 0, {}});
  };
  if (!status) return failed(target::AttachCause::no_such_process);
  // Those of other users are in folders that only they, and root, can read.
  if (status->state == 'Z') return std::nullopt;
  if (status->kernel_thread) return failed(target::AttachCause::kernel_thread);
  if (!target::Memory::open(pid)) return failed(target::AttachCause::not_permitted);
  // So are those that another user has made in a process of this user.
  if (const auto closed = ledger::why_closed(pid);
      closed && std::holds_alternative<ledger::Occupied>(*closed))
    return message(*closed);
  return std::nullopt;
}

}  // namespace pinprick::cli
